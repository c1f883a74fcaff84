"""``skybridge pipeline query`` runs an SQL query on the lake."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli import printing
from app.cli.options import ConfigFile
from app.cli.pipeline import next_step
from app.cli.pipeline.group import moment, verb
from app.cli.verbs import option

if TYPE_CHECKING:
    from datetime import datetime

    from app.pipeline.query.duck import QueryAnswer
    from app.pipeline.settings import Lake

MAX_WIDTH: Final = 60  # characters of a value in a table


class OutputFormat(StrEnum):
    """The output formats of a query."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@verb(
    "query",
    'skybridge pipeline query "SELECT type, count(*) AS n FROM events GROUP BY type ORDER BY n DESC"',
    'skybridge pipeline query "SELECT * FROM quarantine ORDER BY record_time DESC" --limit 20 --format json',
    'skybridge pipeline query "DESCRIBE events"',
    'skybridge pipeline query "SELECT committed_at, operation FROM events_snapshots"',
    'skybridge pipeline query "SELECT count(*) FROM events" --at 2026-11-20T12:00:00Z',
)
def run(
    sql: Annotated[str, typer.Argument(help="Run this SQL statement; - reads standard input.")],
    config: ConfigFile = None,
    form: Annotated[
        OutputFormat, option("Print a table, json (one object per line) or csv.", "--format", "-f")
    ] = OutputFormat.TABLE,
    limit: Annotated[int, option("Print at most this many rows; 0: all.", min=0)] = 1000,
    at: Annotated[str, option("Read the rows that the tables had at this time (ISO 8601).")] = "",
) -> None:
    """Query the lake in SQL.

    The tables are events, events_raw, quarantine and those in pipeline.tables. The SQL dialect is that of DuckDB. The
    command refuses statements that change data or use files, the network or extensions. Binary values are shown as text
    if they are UTF-8, and as base64 in json. Iceberg's metadata of a table is in tables of their own, such as
    events_snapshots, events_files and events_partitions.
    """
    text = sys.stdin.read() if sql == "-" else sql
    quiet = form is not OutputFormat.TABLE
    lake, answer = _answered(config, text, limit, moment("--at", at))
    _print_answer(answer, form)
    if answer.more:
        printing.err().print(
            f"These are the first {limit} rows; --limit 0 prints all.", style="yellow"
        )
    if not quiet and sys.stderr.isatty():  # a pipe or a file gets only the answer
        next_step.print_next_step(lake, config, "report", look="on one page")


def _answered(
    config: Path | None, sql: str, limit: int, at: datetime | None
) -> tuple[Lake, QueryAnswer]:
    from app.cli.pipeline.signals import exit_on_signal, run_in_thread

    def answered() -> tuple[Lake, QueryAnswer]:
        from app.features.lake.settings import lake_of
        from app.pipeline.query.duck import ask

        lake = lake_of(settings)
        return lake, ask(lake, sql, limit=limit, at=at)

    from app.cli import options
    from app.pipeline.query import opening

    opening.requirements()
    settings = options.configuration(config)
    with exit_on_signal(), _asking():
        return run_in_thread(answered)


def _asking() -> AbstractContextManager[object]:
    """Return a context manager that shows a spinner on a terminal. Without a terminal it does
    nothing, so that rich, which loads slowly, is not imported.
    """
    if not sys.stderr.isatty():
        return nullcontext()
    return printing.err().status("asking", spinner="line")


def _print_answer(answer: QueryAnswer, form: OutputFormat) -> None:
    match form:
        case OutputFormat.JSON:
            for row in answer.rows:
                printing.json_line(dict(zip(answer.columns, row, strict=True)))
        case OutputFormat.CSV:
            import csv

            writer = csv.writer(_Lines(), lineterminator="")
            writer.writerow(answer.columns)
            writer.writerows([_text(value) for value in row] for row in answer.rows)
        case _:
            rows = [[_short(value) for value in row] for row in answer.rows]
            printing.print_table(answer.columns, rows)


class _Lines:
    """A file object for ``csv`` that prints each row as a line."""

    write = staticmethod(printing.text_line)


def _short(value: Any) -> str | None:
    if value is None:
        return None
    text = printing.escape_line(_text(value))
    return text if len(text) <= MAX_WIDTH else f"{text[: MAX_WIDTH - 1]}…"


def _text(value: Any) -> str:
    """Return a value as the text of a CSV cell. None becomes empty text."""
    match value:
        case None:
            return ""
        case bytes():
            return _of_bytes(value)
        case dict() | list() | bool():
            import msgspec

            return msgspec.json.encode(value).decode()
        case _ if hasattr(value, "isoformat"):
            return str(value.isoformat())
        case _:
            return str(value)


def _of_bytes(value: bytes) -> str:
    from base64 import b64encode

    try:
        return value.decode()
    except UnicodeDecodeError:
        return b64encode(value).decode()
