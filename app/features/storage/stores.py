"""Open the store of a configuration, and check whether another process can use it."""

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
from app.interfaces import Clock
from app.interfaces.clock import SYSTEM_CLOCK
from app.store import schema, upkeep
from app.store.audit import AuditBounds
from app.store.encryption import Vault
from app.store.files import SoleUse
from app.telemetry import Histogram


def open_store(
    config: Config,
    roles: Collection[str] = (),
    took: Histogram | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> stores.SqlStore:
    """Return the store, which is not started yet. If this process has workers and the store is an SQLite
    file, no other process with workers may use the file.

    ``took`` is a histogram of the duration of operations. ``clock`` is the clock of this machine.
    """
    kept, timeout = config.store, config.timeouts.store
    max_letters = kept.dead_letters.max_rows
    audited = AuditBounds(**dict(kept.audit))
    if isinstance(kept, PostgresStore):
        dsn = kept.dsn.get_secret_value()
        return stores.open_shared_store(
            dsn,
            timeout=timeout,
            max_letters=max_letters,
            audited=audited,
            took=took,
            clock=clock,
        )
    return stores.open_store(
        kept.path,
        timeout=timeout,
        max_letters=max_letters,
        audited=audited,
        alone="worker" in roles,
        took=took,
        clock=clock,
    )


def vault_of(config: Config) -> Vault:
    """Return the keys that encrypt secrets in the store. Without keys, no secret can be stored."""
    encryption = config.store.encryption
    if encryption is None:
        return Vault(())
    keys = filter(None, (encryption.key, encryption.previous))
    return Vault([key.get_secret_value() for key in keys])


async def check_store_connection(loaded: Loaded) -> list[Finding]:
    """Return an error if the database does not answer or has the schema of a newer release. Return a warning
    if another process with workers uses the file. Nothing is created or changed."""
    try:
        await asyncio.to_thread(_demand_readable, loaded)
    except SetupError as error:
        return [_finding(loaded, "error", error)]
    try:
        await asyncio.to_thread(_demand_unused, loaded)
    except SetupError as error:
        return [_finding(loaded, "warning", error)]
    return []


def _demand_readable(loaded: Loaded) -> None:
    """Raise SetupError if the store cannot be read or has an unknown schema."""
    config = loaded.config
    if isinstance(config.store, PostgresStore):
        dsn, setting = config.store.dsn.get_secret_value(), "store.dsn"
        found = upkeep.look_at_database(dsn, config.timeouts.store)
    else:
        found, setting = upkeep.look_at_file(config.store.path), "store.path"
    schema.demand_known(found.revision or None, found.place, setting)


def _demand_unused(loaded: Loaded) -> None:
    """Raise SetupError if another process with workers uses the file."""
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
