"""Shell. Create the service from a configuration, run its roles, and handle signals."""
