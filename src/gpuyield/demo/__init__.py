"""A synthetic cluster with known truth, from a seed, and a Prometheus-compatible API that serves it."""
