"""What would make an impossible problem possible, each checked."""
