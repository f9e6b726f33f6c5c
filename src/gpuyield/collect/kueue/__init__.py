"""Kueue and the Kubernetes objects around it: read from the API server, turned into one snapshot."""
