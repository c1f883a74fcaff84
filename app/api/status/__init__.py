"""Shell. The state of the service: probes, status, metrics, history, and the current configuration."""
