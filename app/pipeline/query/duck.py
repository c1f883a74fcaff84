"""The question put to DuckDB, in this process and without Java. It sees the tables of the lake and nothing else.

Whose SQL it is, nobody knows: files, the network, extensions, settings and the variables of this process are shut
off by DuckDB's own settings, which are locked before it reads the first word.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from app.errors import SetupError
from app.pipeline import tables
from app.pipeline.query.answer import Answer, changing, refused
from app.pipeline.query.opening import opened
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from app.pipeline.query.scan import Rows

MEMORY: Final = "1GB"
"""Of DuckDB for a question."""

DISK: Final = "10GB"
_THREADS: Final = 4
_FETCHED: Final = 1_000  # rows at once
_LARGEST: Final = 2**63  # an integer beyond it is no number of JSON

_SHUT: Final[Mapping[str, str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",  # FROM x is a table, never a variable of ours
    "python_scan_all_frames": "false",
}
_ASKED: Final = {"SELECT", "EXPLAIN"}
"""Kinds of statement; DESCRIBE, SHOW, SUMMARIZE, FROM, VALUES and WITH are SELECT to DuckDB."""


def ask(lake: Lake, sql: str, *, limit: int) -> Answer:
    """The first ``limit`` rows (0: all) of a SELECT, SHOW, DESCRIBE or EXPLAIN.

    Raises SetupError for SQL that DuckDB cannot read, that names what is not there, and that does more than
    look; for a lake that is missing, or that only Spark can read.
    """
    return answered(rows_of(lake, sql), sql, limit=limit)


def rows_of(lake: Lake, sql: str = "") -> dict[str, Rows]:
    """The tables that the SQL names, or all of them where it names none: SHOW TABLES."""
    with _without_pandas():
        from app.pipeline.query.scan import Rows  # noqa: PLC0415 - heavy

    named = {name for name in tables.COLUMNS if re.search(rf"\b{name}\b", sql, re.IGNORECASE)}
    wanted = [name for name in tables.COLUMNS if name in named or not named]
    # The last that an archive writes is opened first: what it counts as done, the others have.
    found = {name: Rows(opened(lake, name)) for name in reversed(wanted)}
    return {name: found[name] for name in wanted}


class _NoPandas:
    """One of ``sys.meta_path``, which finds that there is none."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError(name)


@contextmanager
def _without_pandas() -> Iterator[None]:
    """Arrow's datasets import it where it is installed, which is half of what their import takes. Arrow looks
    once, and again when it is asked for a frame, which nothing here does.
    """
    sys.meta_path.insert(0, _NoPandas)
    try:
        yield
    finally:
        sys.meta_path.remove(_NoPandas)


def answered(rows: Mapping[str, Rows], sql: str, *, limit: int) -> Answer:
    """As ``ask``, of these tables."""
    import duckdb  # noqa: PLC0415 - heavy, and an extra

    with connected(rows) as connection:
        connection.execute("SET lock_configuration = true")
        try:
            _demand_harmless(connection, sql)
            connection.execute("BEGIN TRANSACTION READ ONLY")
            return _answer(connection.execute(sql), limit)
        except duckdb.Error as refusal:
            _demand_read(rows)
            raise refused("DuckDB", _brief(refusal)) from None


@contextmanager
def connected(rows: Mapping[str, Rows], memory: str = MEMORY) -> Iterator[DuckDBPyConnection]:
    """A DuckDB of its own that sees these tables. ``memory``: what does not fit goes to disk, up to DISK.

    Raises SetupError for a file of a table that only Spark can read.
    """
    import duckdb  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="skybridge-query-") as folder:
        bounds = {
            "memory_limit": memory,
            "threads": str(min(_THREADS, os.cpu_count() or 1)),
            "temp_directory": folder,
            "max_temp_directory_size": DISK,
        }
        with duckdb.connect(config={**_SHUT, **bounds}) as connection:
            for name, each in rows.items():
                connection.register(name, each)
            connection.execute("SET TimeZone = 'UTC'")
            try:
                yield connection
            except duckdb.Error:
                _demand_read(rows)
                raise


def _demand_read(rows: Mapping[str, Rows]) -> None:
    for name, each in rows.items():
        if each.fault is not None:
            raise _unread(name, each.fault) from None


def _demand_harmless(connection: DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise SetupError(
            f"this is {len(statements)} statements, and query takes one", cure="ask them one by one"
        )
    if _kind(statements[0]) not in _ASKED:
        raise changing("SELECT, WITH, FROM, SHOW, DESCRIBE, SUMMARIZE")


def _kind(statement: Any) -> str:
    """Empty for a kind that has no name in DuckDB's Python."""
    try:
        return str(statement.type.name)
    except ValueError:
        return ""


def _answer(found: DuckDBPyConnection, limit: int) -> Answer:
    """No more is read than is shown."""
    columns = [each[0] for each in found.description or ()]
    rows: list[tuple[Any, ...]] = []
    while not limit or len(rows) <= limit:
        fetched = found.fetchmany(min(_FETCHED, limit + 1 - len(rows)) if limit else _FETCHED)
        if not fetched:
            break
        rows += [tuple(map(_plain, row)) for row in fetched]
    more = bool(limit) and len(rows) > limit
    return Answer(columns, rows[:limit] if limit else rows, more)


def _plain(value: Any) -> Any:
    """As Spark gives it too: a sum is a HUGEINT here, and JSON has no number for the longest of them."""
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return str(value)
    return value


def _unread(name: str, fault: Exception) -> SetupError:
    return SetupError(
        f"{name} cannot be read without Spark: {_brief(fault)}",
        setting="pipeline.lake",
        cure="add --engine spark; skybridge pipeline maintain rewrites files with deleted rows",
    )


def _brief(refusal: Exception) -> str:
    """Without the line of the SQL that DuckDB draws, and without its class."""
    text = str(refusal).split("\n\nLINE ")[0]
    return " ".join(text.split())
