"""Shell. From a file and an environment to a configuration, or to every finding: YAML, overrides, secrets, positions."""
