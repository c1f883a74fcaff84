"""From the configuration to the store, and whether one more process can use it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Literal

from app import store as stores
from app.config.load.finding import Finding
from app.config.load.loader import Loaded
from app.config.model.config import Config
from app.config.model.store import PostgresStore
from app.errors import SetupError
from app.store import schema, upkeep
from app.store.audit import AuditBounds
from app.store.encryption import Vault
from app.store.files import SoleUse
from app.telemetry import Histogram


def open_store(
    config: Config, roles: Collection[str] = (), took: Histogram | None = None
) -> stores.SqlStore:
    """Not yet started. A process with workers wants an SQLite file for itself. ``took``: how long its
    operations took. Raises SetupError."""
    kept, timeout = config.store, config.timeouts.store
    max_letters = kept.dead_letters.max_rows
    audited = AuditBounds(**dict(kept.audit))
    if isinstance(kept, PostgresStore):
        dsn = kept.dsn.get_secret_value()
        return stores.open_shared_store(
            dsn, timeout=timeout, max_letters=max_letters, audited=audited, took=took
        )
    return stores.open_store(
        kept.path,
        timeout=timeout,
        max_letters=max_letters,
        audited=audited,
        alone="worker" in roles,
        took=took,
    )


def vault_of(config: Config) -> Vault:
    """Return the keys that seal secrets in the store; without any, no secret can be stored."""
    encryption = config.store.encryption
    if encryption is None:
        return Vault(())
    keys = filter(None, (encryption.key, encryption.previous))
    return Vault([key.get_secret_value() for key in keys])


async def check_store_connection(loaded: Loaded) -> list[Finding]:
    """A database that does not answer or is a newer release's; a file that is none, or that another
    process with workers has for itself. Nothing is made or changed."""
    try:
        await asyncio.to_thread(_look, loaded)
    except SetupError as error:
        return [_finding(loaded, "error", error)]
    try:
        await asyncio.to_thread(_take, loaded)
    except SetupError as error:
        return [_finding(loaded, "warning", error)]
    return []


def _look(loaded: Loaded) -> None:
    config = loaded.config
    if isinstance(config.store, PostgresStore):
        dsn, setting = config.store.dsn.get_secret_value(), "store.dsn"
        found = upkeep.look_at_database(dsn, config.timeouts.store)
    else:
        found, setting = upkeep.look_at_file(config.store.path), "store.path"
    schema.demand_known(found.revision or None, found.place, setting)


def _take(loaded: Loaded) -> None:
    store = loaded.config.store
    if isinstance(store, PostgresStore):
        return
    sole_use = SoleUse(store.path)
    if sole_use.begun:
        sole_use.take()
        sole_use.release()


def _finding(loaded: Loaded, level: Literal["error", "warning"], error: SetupError) -> Finding:
    return Finding(
        level=level,
        setting=error.setting,
        message=loaded.redacted(str(error.args[0])),
        cure=error.cure,
        place=loaded.place(*error.setting.split(".")),
    )
