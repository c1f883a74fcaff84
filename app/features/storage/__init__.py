"""The store of a configuration, and its backups."""
