"""``skybridge store`` shows, migrates, backs up and restores the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import options, printing, verbs
from app.cli.options import ConfigFile
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.config.model.config import Config
    from app.features.storage.rotation import Rotation
    from app.store.upkeep import StoreStatus

app = verbs.group(
    "store",
    "Inspect, migrate, back up or restore the store.\n\n"
    "The store has parked messages, dead letters, attempts and subscriptions of the API. These commands work on the file or database that the configuration names, without a service. A service "
    "upgrades an older store when it starts; `migrate` upgrades it beforehand.",
)

Json = Annotated[bool, option("Print one JSON object.", "--json")]


@app.verb(
    "status", "skybridge store status", "skybridge store status --config skybridge.yaml --json"
)
def status(config: ConfigFile = None, as_json: Json = False) -> None:
    """Show the place, schema and row counts of the store.

    Nothing is changed.
    """
    from app.config.model.store import PostgresStore
    from app.store import upkeep

    loaded = options.configuration(config)
    if isinstance(loaded.store, PostgresStore):
        dsn = loaded.store.dsn.get_secret_value()
        found = upkeep.look_at_database(dsn, loaded.timeouts.store)
    else:
        found = upkeep.look_at_file(loaded.store.path)
    _print_status(found, as_json=as_json)


@app.verb("migrate", "skybridge store migrate --config skybridge.yaml")
def migrate(config: ConfigFile = None) -> None:
    """Create the store, or upgrade it to this release.

    Before you migrate an SQLite store, stop all processes with workers. The old file is kept in the
    same folder. With PostgreSQL, processes that start meanwhile wait for the end of the migration.
    """
    import asyncio

    from app.features.storage.stores import open_store
    from app.store import schema

    async def bring_up() -> None:
        store = open_store(options.configuration(config), ("worker",))
        await store.start()
        await store.stop()

    asyncio.run(bring_up())
    printing.text_line(f"the store has schema {schema.HEAD}")


@app.verb(
    "backup",
    "skybridge store backup backup-2026-01-31 --config skybridge.yaml",
    "skybridge store backup /backups --keep 7 --config skybridge.yaml   # each night",
)
def backup(
    folder: Annotated[Path, typer.Argument(help="Write the backup into this new folder.")],
    config: ConfigFile = None,
    keep: Annotated[
        int | None,
        option(
            "Write into a new folder of FOLDER, named after the time, and delete all but the newest N of these.",
            metavar="N",
            min=1,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy the store and every embedded log into one folder.

    Services may run meanwhile. Each file is checked, and its SHA-256 is printed and written to
    SHA256SUMS. For a PostgreSQL store, run pg_dump after this command. Back up other brokers with
    their own tools.
    """
    with printing.progress_bars(quiet=as_json) as bars:
        tasks: dict[str, Any] = {}

        def show(name: str, done: int, of: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(f"copying {name}", total=of)
            bars.update(tasks[name], completed=done, total=of)

        made = _back_up(options.configuration(config), folder, keep, show)
    if as_json:
        deleted = {} if keep is None else {"deleted": [str(each) for each in made.deleted]}
        printing.json_line({"folder": str(made.folder), "files": made.copied, **deleted})
        return
    if keep is not None:
        printing.text_line(f"the backup is {made.folder}")
    rows = [(each.name, each.file, str(each.bytes), each.sha256) for each in made.copied]
    printing.print_table(("what", "file", "bytes", "sha256"), rows)
    for part in made.absent:
        printing.text_line(f"{part.name} does not exist yet: {part.place}")
    for each in made.deleted:
        printing.text_line(f"{each} is deleted")


def _back_up(
    config: Config, folder: Path, keep: int | None, show: Callable[[str, int, int], None]
) -> Rotation:
    """Write the backup into the folder, or with ``keep`` among the backups of the folder."""
    import datetime as dt

    from app.features.storage import backup as backups
    from app.features.storage.rotation import Rotation, back_up_into

    if keep is not None:
        return back_up_into(config, folder, keep, dt.datetime.now(dt.UTC), show)
    copied, absent = backups.back_up(config, folder, show)
    return Rotation(folder, copied, absent, [])


@app.verb("restore", "skybridge store restore backup-2026-01-31 --config skybridge.yaml")
def restore(
    folder: Annotated[Path, typer.Argument(help="Restore the backup in this folder.")],
    config: ConfigFile = None,
) -> None:
    """Replace the store and embedded logs by a backup.

    Stop the service first. The present files are kept in their folders. Events accepted since the
    backup are lost; events delivered since are delivered again.
    """
    from app.features.storage import backup as backups

    for each in backups.restore(options.configuration(config), folder):
        if each.kept:
            printing.text_line(f"{each.name}: the old file is kept as {each.kept}")
        printing.text_line(f"{each.name}: {each.place} is restored from {folder}")


def _print_status(found: StoreStatus, *, as_json: bool) -> None:
    if as_json:
        printing.json_line(found)
        return
    state = "does not exist yet" if not found.revision else f"has schema {found.revision}"
    older = found.revision and found.revision != found.known
    printing.text_line(
        f"{found.place} {state}" + (f", this release knows {found.known}" if older else "")
    )
    if found.rows:
        printing.print_table(("table", "rows"), sorted(found.rows.items()))
