"""Shell. How the store's schema came to be what ``tables`` says: Alembic's revisions, the oldest first."""
