"""The load sender: worker processes that send at fixed times and keep what came back. All of measure's I/O is here."""
