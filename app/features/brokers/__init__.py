"""The brokers of a configuration, and their logs."""
