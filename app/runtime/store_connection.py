"""Whether the store of a configuration can be used by one more process."""

from __future__ import annotations

import asyncio
from typing import Literal

from app.config.finding import Finding
from app.config.load import Loaded
from app.config.store import PostgresStore
from app.errors import SetupError
from app.store import schema, upkeep
from app.store.sole_use import SoleUse


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
