"""Shell. The history of the store's schema up to ``tables``, as Alembic revisions, oldest first."""
