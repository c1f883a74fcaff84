"""Shell. Durable state outside the log: parked messages, dead letters, attempts, subscriptions.

One class per concern, each in its own file, implements its protocol of ``interfaces.store``; ``sql`` holds
them on one database. ``tables`` is the whole schema, ``rows`` a message as columns and back,
``owners`` the fence that an owner's writes pass, ``transactions`` the thread they run on; ``sqlite`` and
``postgresql`` open a database so that a commit is durable.
"""

from app.store.sql import SqlStore, open_shared_store, open_store

__all__ = ["SqlStore", "open_shared_store", "open_store"]
