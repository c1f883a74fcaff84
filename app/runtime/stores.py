"""From the configuration to the store."""

from __future__ import annotations

from collections.abc import Collection

from app import store as stores
from app.config.model import Config
from app.config.store import PostgresStore
from app.telemetry import Histogram


def open_store(
    config: Config, roles: Collection[str] = (), took: Histogram | None = None
) -> stores.SqlStore:
    """Not yet started. A process with workers wants an SQLite file for itself. ``took``: how long its
    operations took. Raises SetupError."""
    kept, timeout = config.store, config.timeouts.store
    max_letters = kept.dead_letters.max_rows
    if isinstance(kept, PostgresStore):
        dsn = kept.dsn.get_secret_value()
        return stores.open_shared_store(dsn, timeout=timeout, max_letters=max_letters, took=took)
    return stores.open_store(
        kept.path,
        timeout=timeout,
        max_letters=max_letters,
        alone="worker" in roles,
        took=took,
    )
