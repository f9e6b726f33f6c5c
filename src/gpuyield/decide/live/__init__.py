"""A cluster as it is now: its snapshot as a planning problem, and why each job waits."""
