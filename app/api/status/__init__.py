"""Shell. State of the service: probes, history, attention, and the configuration in force."""
