"""``skybridge pipeline erase`` removes all events of a subject or a source from the lake."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import exits, printing
from app.cli.options import ConfigFile
from app.cli.pipeline import next_step
from app.cli.pipeline.group import Json, load_configuration, open_lake, verb
from app.cli.verbs import option

if TYPE_CHECKING:
    from app.pipeline.erase import Attribute, Erased
    from app.pipeline.settings import Lake
    from app.spark.session import SparkSession


@verb(
    "erase",
    "skybridge pipeline erase --subject customer-4711 --dry-run",
    "skybridge pipeline erase --subject customer-4711 --yes",
    "skybridge pipeline erase --source /shops/closed --yes --json",
)
def run(
    config: ConfigFile = None,
    subject: Annotated[str, option("Remove all events with this subject.")] = "",
    source: Annotated[str, option("Remove all events of this source.")] = "",
    dry_run: Annotated[bool, option("Only count the rows that would be removed.")] = False,
    yes: Annotated[bool, option("Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Remove all events of a subject or source from the lake.

    The command removes rows, older snapshots, and the files that hold them. It first counts the
    rows, and asks for confirmation unless --yes is given. Erased rows cannot be restored, except
    from the topic, until its retention deletes them. No archive, redrive or maintain may run
    meanwhile.
    """
    attribute, text = _chosen(subject, source)
    if not (dry_run or yes or sys.stdin.isatty()):
        printing.fail(
            "The command would remove rows for good, and there is no terminal to ask for confirmation.",
            cure="Add --yes to confirm, or inspect first with --dry-run.",
            code=exits.SETUP,
        )
    settings = load_configuration(config)
    from app.spark.cleanup import cleaning_up

    session, lake = open_lake(settings, "erase", quiet=as_json, brief=True)
    with cleaning_up(session.stop):
        found = _counted(session, lake, attribute, text)
        if not dry_run:
            _ask(found, attribute, text, yes=yes, quiet=as_json)
            found = _erased(session, lake, attribute, text)
    _report(found, attribute, text, dry_run=dry_run, as_json=as_json)
    if not as_json:
        again = ("erase", f"--{attribute}", text)
        then = again if dry_run else (*again, "--dry-run")
        next_step.print_next_step(
            lake, config, *then, look="" if dry_run else "to see that nothing is left"
        )


def _chosen(subject: str, source: str) -> tuple[Attribute, str]:
    """Return the attribute, ``subject`` or ``source``, and its value. End the command unless
    exactly one of the two options is set.
    """
    if bool(subject) == bool(source):
        printing.fail(
            "erase needs either --subject or --source.",
            cure="Run skybridge pipeline erase --subject TEXT --dry-run.",
            code=exits.SETUP,
        )
    return ("subject", subject) if subject else ("source", source)


def _counted(session: SparkSession, lake: Lake, attribute: Attribute, text: str) -> list[Erased]:
    from app.pipeline.erase import find

    with printing.err().status("counting", spinner="line"):
        return find(session, lake, attribute, text)


def _ask(found: list[Erased], attribute: Attribute, text: str, *, yes: bool, quiet: bool) -> None:
    """Print the row counts, and ask for confirmation unless ``yes`` is set. With ``yes`` the counts
    are also printed, so the user can still interrupt the command.
    """
    counts = ", ".join(f"{each.rows} of {each.table}" for each in found)
    if not quiet:
        printing.err().print(f"{attribute} {text}: rows to remove: {counts}", markup=False)
    if not yes:
        typer.confirm(f"Remove for good {counts}, and every older snapshot?", abort=True, err=True)


def _erased(session: SparkSession, lake: Lake, attribute: Attribute, text: str) -> list[Erased]:
    from app.pipeline.erase import erase

    with printing.err().status("erasing", spinner="line") as status:
        return erase(
            *(session, lake, attribute, text),
            tell=lambda table, step: status.update(f"{table}: {step}"),
        )


def _report(
    found: list[Erased], attribute: Attribute, text: str, *, dry_run: bool, as_json: bool
) -> None:
    if as_json:
        printing.json_line({attribute: text, "dry_run": dry_run, "tables": found})
    elif dry_run:
        printing.print_table(
            ("table", "rows to remove"), [(each.table, each.rows) for each in found]
        )
    else:
        rows = [(each.table, each.rows, each.snapshots, each.files) for each in found]
        printing.print_table(("table", "removed rows", "removed snapshots", "removed files"), rows)
