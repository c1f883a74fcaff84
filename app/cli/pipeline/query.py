"""``skybridge pipeline query``: a question to the lake, in SQL."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli import printing
from app.cli.options import ConfigFile
from app.cli.pipeline.group import open_lake, read, verb

if TYPE_CHECKING:
    from app.pipeline.query import Answer

WIDEST: Final = 60  # characters of a value in a table


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@verb(
    "query",
    'skybridge pipeline query "SELECT type, count(*) AS n FROM events GROUP BY type ORDER BY n DESC"',
    'skybridge pipeline query "SELECT * FROM quarantine ORDER BY record_time DESC" --limit 20 --format json',
    'skybridge pipeline query "DESCRIBE events"',
)
def run(
    sql: Annotated[str, typer.Argument(help="One statement; - reads it from standard input.")],
    config: ConfigFile = None,
    form: Annotated[
        Format,
        typer.Option("--format", "-f", help="Format: table, json (an object a line) or csv."),
    ] = Format.TABLE,
    limit: Annotated[int, typer.Option(min=0, help="Most rows; 0 for all.")] = 1000,
) -> None:
    """Query the lake in Spark's SQL. The tables are events, events_raw and quarantine.

    It only reads: a statement that would change anything is refused. Binary values are shown as text if they are
    UTF-8, and as base64 in json. Iceberg's own tables have long names: lake.skybridge.events.snapshots.
    """
    settings = read(config)
    from app.pipeline.query import ask

    text = sys.stdin.read() if sql == "-" else sql
    session, lake = open_lake(settings, "query", quiet=form is not Format.TABLE)
    try:
        with printing.err().status("asking", spinner="line"):
            answer = ask(session, lake, text, limit=limit)
    finally:
        session.stop()
    _tell(answer, form)
    if answer.more:
        printing.err().print(f"only the first {limit} rows; --limit 0 gives all", style="yellow")


def _tell(answer: Answer, form: Format) -> None:
    match form:
        case Format.JSON:
            for row in answer.rows:
                printing.json_line(dict(zip(answer.columns, row, strict=True)))
        case Format.CSV:
            import csv

            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(answer.columns)
            writer.writerows([_text(value) for value in row] for row in answer.rows)
        case _:
            rows = [[_short(value) for value in row] for row in answer.rows]
            printing.table(answer.columns, rows)


def _short(value: Any) -> str | None:
    if value is None:
        return None
    text = printing.one_line(_text(value))
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _text(value: Any) -> str:
    """Empty for none, as CSV has it."""
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
