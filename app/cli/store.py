"""``skybridge store``: look after what the store keeps."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import printing, verbs

if TYPE_CHECKING:
    from app.config.model import Config
    from app.config.store import PostgresStore, SqliteStore
    from app.store.upkeep import Standing

app = verbs.group(
    "store",
    "The store: messages that wait, dead letters, attempts, subscriptions of the API.\n\n"
    "These verbs work on the file or database that the configuration names, without a service. A service "
    "brings an older store up by itself when it starts; `migrate` does it beforehand.",
)
_verb = functools.partial(verbs.verb, app)

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="SKYBRIDGE_CONFIG", help="The configuration file."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@_verb("status", "skybridge store status", "skybridge store status --config skybridge.yaml --json")
def status(config: ConfigFile = None, as_json: Json = False) -> None:
    """Tell where the store is, which schema it has and how many rows. Nothing is changed."""
    from app.config.store import PostgresStore
    from app.store import upkeep

    loaded = _config(config)
    if isinstance(loaded.store, PostgresStore):
        dsn = loaded.store.dsn.get_secret_value()
        found = upkeep.look_at_database(dsn, loaded.timeouts.store)
    else:
        found = upkeep.look_at_file(loaded.store.path)
    _tell(found, as_json=as_json)


@_verb("migrate", "skybridge store migrate --config skybridge.yaml")
def migrate(config: ConfigFile = None) -> None:
    """Bring the store to the schema of this release, or make it.

    SQLite: the file as it was is kept beside it; no process with workers may use it. PostgreSQL:
    processes that start meanwhile wait.
    """
    import asyncio

    from app.runtime.stores import open_store
    from app.store import schema

    async def bring_up() -> None:
        store = open_store(_config(config), ("worker",))
        await store.start()
        await store.stop()

    asyncio.run(bring_up())
    printing.text_line(f"the store has schema {schema.HEAD}")


@_verb("backup", "skybridge store backup store-2026-01-31.db --config skybridge.yaml")
def backup(
    file: Annotated[Path, typer.Argument(help="A file that is not there yet.")],
    config: ConfigFile = None,
) -> None:
    """Copy an SQLite store, also while services run: their writes wait for as long as it takes.

    A PostgreSQL store is copied by PostgreSQL's own means: this says which.
    """
    from app.store import upkeep

    store = _sqlite(_config(config), "pg_dump --format=custom --file=store.dump")
    upkeep.back_up(store.path, file)
    printing.text_line(f"{store.path} is copied to {file}")


@_verb("restore", "skybridge store restore store-2026-01-31.db --config skybridge.yaml")
def restore(
    file: Annotated[Path, typer.Argument(help="What backup has made.")],
    config: ConfigFile = None,
) -> None:
    """Put a backup in the place of an SQLite store. What is there is kept beside it.

    No process with workers may run. What was delivered since the backup and waited in it is delivered
    again; what began to wait since is not in it.
    """
    from app.store import upkeep

    store = _sqlite(_config(config), "pg_restore --clean --if-exists store.dump")
    kept = upkeep.restore(store.path, file)
    if kept is not None:
        printing.text_line(f"what was there is in {kept}")
    printing.text_line(f"{store.path} is what {file} holds")


def _config(file: Path | None) -> Config:
    import os

    from app.config.load import load

    return load(file, os.environ).config


def _sqlite(config: Config, instead: str) -> SqliteStore:
    from app.config.store import PostgresStore
    from app.errors import SetupError

    store: SqliteStore | PostgresStore = config.store
    if isinstance(store, PostgresStore):
        raise SetupError(
            "this store is a PostgreSQL database",
            setting="store.kind",
            cure=f'{instead} --dbname="$DSN", with the connection string of store.dsn',
        )
    return store


def _tell(found: Standing, *, as_json: bool) -> None:
    if as_json:
        printing.json_line(found)
        return
    state = "is there not yet" if not found.revision else f"has schema {found.revision}"
    older = found.revision and found.revision != found.known
    printing.text_line(f"{found.place} {state}" + (f", known is {found.known}" if older else ""))
    if found.rows:
        printing.table(("table", "rows"), sorted(found.rows.items()))
