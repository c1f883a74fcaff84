"""Shell. Durable state outside the log: parked messages, dead letters, attempts, subscriptions.

Each class implements one protocol of ``interfaces.store`` in a file of its own, and ``sql`` combines them on one
database. ``tables`` is the schema. ``rows`` converts messages to columns and back. ``owners`` fences the writes of
old owners. ``transactions`` runs all work on a thread. ``sqlite`` and ``postgresql`` open a database so that
commits are durable."""

from app.store.sql import SqlStore, open_shared_store, open_store

__all__ = ["SqlStore", "open_shared_store", "open_store"]
