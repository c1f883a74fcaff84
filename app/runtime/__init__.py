"""Shell. Builds the parts from a configuration, runs the roles, owns the signals."""
