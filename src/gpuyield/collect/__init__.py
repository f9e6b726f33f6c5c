"""What the cluster says: Prometheus-like servers, kube-state-metrics, exporters, OpenCost; read, never changed."""
