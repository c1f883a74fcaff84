"""``skybridge pipeline erase``: one subject or source, out of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import exits, printing
from app.cli.pipeline.group import ConfigFile, Json, open_lake, read, verb

if TYPE_CHECKING:
    from app.pipeline.erase import Attribute, Erased


@verb(
    "erase",
    "skybridge pipeline erase --subject customer-4711 --dry-run",
    "skybridge pipeline erase --subject customer-4711 --yes",
    "skybridge pipeline erase --source /shops/closed --yes --json",
)
def run(
    config: ConfigFile = None,
    subject: Annotated[str, typer.Option(help="All events with this subject.")] = "",
    source: Annotated[str, typer.Option(help="All events of this source.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the rows.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove all events of a subject or a source: rows, older snapshots, and the files that hold them.

    Nothing brings them back but the log that they came from: its own retention removes them there. Older
    snapshots of the tables cannot be read any more. The archive must be stopped meanwhile.
    """
    from datetime import UTC, datetime

    attribute, text = _chosen(subject, source)
    settings = read(config)
    from app.pipeline.erase import erase, find

    session, lake = open_lake(settings, "erase", quiet=as_json)
    found = find(session, lake, attribute, text) if dry_run or not yes else []
    if not dry_run:
        if not yes:
            _tell(found, as_json=False)
            typer.confirm("Remove them for good?", abort=True)
        with printing.err().status("looking", spinner="line") as status:
            found = erase(
                *(session, lake, attribute, text),
                now=datetime.now(UTC),
                tell=lambda table, step: status.update(f"{table}: {step}"),
            )
    session.stop()
    _tell(found, as_json=as_json)


def _chosen(subject: str, source: str) -> tuple[Attribute, str]:
    if bool(subject) == bool(source):
        printing.fail(
            "one of --subject and --source says what to erase",
            cure="skybridge pipeline erase --subject TEXT --dry-run",
            code=exits.SETUP,
        )
    return ("subject", subject) if subject else ("source", source)


def _tell(found: list[Erased], *, as_json: bool) -> None:
    if as_json:
        printing.json_line(found)
        return
    rows = [(each.table, each.rows, each.snapshots, each.files) for each in found]
    printing.table(("table", "rows", "snapshots", "files"), rows)
