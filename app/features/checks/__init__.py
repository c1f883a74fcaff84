"""What ``check --connect`` and ``test`` do with a configuration."""
