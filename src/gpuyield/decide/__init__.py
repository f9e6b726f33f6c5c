"""Decide: why the queue waits, the levers in order, and whether a purchase is needed."""
