"""Better schedules: levelling, ruin and recreate, windows, the fewest GPUs, the shortest, the cheapest."""
