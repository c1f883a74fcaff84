"""``skybridge store``: look after what the store keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import options, printing, verbs
from app.cli.options import ConfigFile

if TYPE_CHECKING:
    from app.store.upkeep import Standing

app = verbs.group(
    "store",
    "The store: messages that wait, dead letters, attempts, subscriptions of the API.\n\n"
    "These verbs work on the file or database that the configuration names, without a service. A service "
    "brings an older store up by itself when it starts; `migrate` does it beforehand.",
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.verb(
    "status", "skybridge store status", "skybridge store status --config skybridge.yaml --json"
)
def status(config: ConfigFile = None, as_json: Json = False) -> None:
    """Tell where the store is, which schema it has and how many rows. Nothing is changed."""
    from app.config.store import PostgresStore
    from app.store import upkeep

    loaded = options.configuration(config)
    if isinstance(loaded.store, PostgresStore):
        dsn = loaded.store.dsn.get_secret_value()
        found = upkeep.look_at_database(dsn, loaded.timeouts.store)
    else:
        found = upkeep.look_at_file(loaded.store.path)
    _tell(found, as_json=as_json)


@app.verb("migrate", "skybridge store migrate --config skybridge.yaml")
def migrate(config: ConfigFile = None) -> None:
    """Bring the store to the schema of this release, or make it.

    SQLite: the file as it was is kept beside it; no process with workers may use it. PostgreSQL:
    processes that start meanwhile wait.
    """
    import asyncio

    from app.runtime.stores import open_store
    from app.store import schema

    async def bring_up() -> None:
        store = open_store(options.configuration(config), ("worker",))
        await store.start()
        await store.stop()

    asyncio.run(bring_up())
    printing.text_line(f"the store has schema {schema.HEAD}")


@app.verb("backup", "skybridge store backup backup-2026-01-31 --config skybridge.yaml")
def backup(
    folder: Annotated[Path, typer.Argument(help="A folder that is not there yet.")],
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Copy the store and every embedded log into one folder, also while services run.

    Each file is checked, and its SHA-256 shown and kept beside it. A PostgreSQL store and other brokers are
    copied by their own means: pg_dump after this one.
    """
    from app.runtime import backup as backups

    with printing.counting(quiet=as_json) as bars:
        tasks: dict[str, Any] = {}

        def told(name: str, done: int, of: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(f"copying {name}", total=of)
            bars.update(tasks[name], completed=done, total=of)

        copied, absent = backups.back_up(options.configuration(config), folder, told)
    if as_json:
        printing.json_line({"folder": str(folder), "files": copied})
        return
    rows = [(each.name, each.file, str(each.bytes), each.sha256) for each in copied]
    printing.table(("what", "file", "bytes", "sha256"), rows)
    for part in absent:
        printing.text_line(f"{part.name} is not there yet: {part.place}")


@app.verb("restore", "skybridge store restore backup-2026-01-31 --config skybridge.yaml")
def restore(
    folder: Annotated[Path, typer.Argument(help="What backup has made.")],
    config: ConfigFile = None,
) -> None:
    """Put a backup in the place of the store and the embedded logs. What is there is kept beside it.

    No service may run. Events that were accepted since the backup are not in it; those that were delivered
    since are delivered again.
    """
    from app.runtime import backup as backups

    for each in backups.restore(options.configuration(config), folder):
        if each.kept:
            printing.text_line(f"what was there is in {each.kept}")
        printing.text_line(f"{each.name}: {each.place} is what {folder} holds")


def _tell(found: Standing, *, as_json: bool) -> None:
    if as_json:
        printing.json_line(found)
        return
    state = "is there not yet" if not found.revision else f"has schema {found.revision}"
    older = found.revision and found.revision != found.known
    printing.text_line(f"{found.place} {state}" + (f", known is {found.known}" if older else ""))
    if found.rows:
        printing.table(("table", "rows"), sorted(found.rows.items()))
