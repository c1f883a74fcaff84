"""Shell. What must outlive a process beside the log: dead letters, disabled subscriptions, owners.

``tables`` is the whole schema, ``engine`` opens the file so that a commit is durable, ``letters``
and ``owners`` are plain functions on a connection, ``sql`` puts them on a thread of their own.
"""

from app.store.sql import SqlStore, open_store

__all__ = ["SqlStore", "open_store"]
