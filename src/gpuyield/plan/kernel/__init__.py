"""Searching with plain arrays, compiled: hundreds of passes a second over ten thousand jobs."""
