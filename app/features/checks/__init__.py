"""The checks of ``check --connect`` and the cases of ``test``."""
