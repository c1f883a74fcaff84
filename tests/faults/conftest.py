"""A webhook and its own account, for every test that kills who delivers to it."""

from delivery_fixtures import ledger, target

__all__ = ["ledger", "target"]
