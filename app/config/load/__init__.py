"""Shell. Turn a file and an environment into a configuration, or into every finding: YAML,
overrides, secrets, line numbers.
"""
