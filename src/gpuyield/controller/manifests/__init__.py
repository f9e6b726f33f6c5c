"""What `controller run` needs in a cluster, as Kubernetes objects made by code: the chart and the base come from it."""
