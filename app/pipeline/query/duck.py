"""Answer a question with DuckDB, in this process and without Java. The SQL can read only the tables
of the lake.

The SQL may come from anyone. So DuckDB's settings forbid access to files, the network, extensions
and the variables of this process. The settings are locked before DuckDB reads the SQL.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from app.errors import SetupError
from app.pipeline import tables
from app.pipeline.query.answer import QueryAnswer, changing_sql, refused_sql
from app.pipeline.query.opening import open_table
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from app.pipeline.query.scan import LakeDataset

MEMORY: Final = "1GB"
"""The memory that DuckDB may use for a question."""

DISK: Final = "10GB"
_THREADS: Final = 4
_FETCHED: Final = 1_000  # rows at once
_LARGEST: Final = 2**63  # many readers of JSON cannot hold a larger integer

_SHUT: Final[Mapping[str, str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",  # FROM x is a table, never a Python variable
    "python_scan_all_frames": "false",
}
_ASKED: Final = {"SELECT", "EXPLAIN"}
"""The permitted kinds of statement. DuckDB parses DESCRIBE, SHOW, SUMMARIZE, FROM, VALUES and WITH
as SELECT.
"""


def ask(lake: Lake, sql: str, *, limit: int) -> QueryAnswer:
    """Return the first ``limit`` rows of a SELECT, SHOW, DESCRIBE or EXPLAIN; all rows if ``limit``
    is 0.

    Raises:
        SetupError: DuckDB refuses the SQL, the statement would change something, or the lake cannot
            be read without Spark.
    """
    return answer_from(datasets_of(lake, sql), sql, limit=limit)


def datasets_of(lake: Lake, sql: str) -> dict[str, LakeDataset]:
    """Return the tables that the SQL names; all tables if it names none, as SHOW TABLES does."""
    typed = [each.table for each in lake.tables]
    known = [*tables.COLUMNS, *typed]
    named = [name for name in known if re.search(rf"\b{name}\b", sql, re.IGNORECASE)]
    if named:
        return open_datasets(lake, named)
    found = open_datasets(lake)
    for name in typed:
        with suppress(SetupError):  # the archive has not created the table yet
            found |= open_datasets(lake, [name])
    return found


def open_datasets(
    lake: Lake, wanted: Sequence[str] = tuple(tables.COLUMNS)
) -> dict[str, LakeDataset]:
    """Return some tables by their names; by default all but the typed ones."""
    with _without_pandas():
        from app.pipeline.query.scan import LakeDataset  # noqa: PLC0415 - heavy

    # The archive writes quarantine last, so it is opened first: the others have all that it counts as done.
    others = [name for name in reversed(wanted) if name != tables.QUARANTINE_TABLE]
    ordered = [*(set(wanted) - set(others)), *others]
    found = {name: LakeDataset(open_table(lake, name)) for name in ordered}
    return {name: found[name] for name in wanted}


class _NoPandas:
    """An import hook for ``sys.meta_path`` that makes pandas appear not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError(name)


@contextmanager
def _without_pandas() -> Iterator[None]:
    """Hide pandas inside the context, because Arrow's datasets import it, which takes half of their
    import time.

    Arrow would look again if it were asked for a pandas frame, which this module never does.
    """
    sys.meta_path.insert(0, _NoPandas)
    try:
        yield
    finally:
        sys.meta_path.remove(_NoPandas)


def answer_from(rows: Mapping[str, LakeDataset], sql: str, *, limit: int) -> QueryAnswer:
    """Answer a question as ``ask`` does, from these tables."""
    import duckdb  # noqa: PLC0415 - heavy, and an extra

    with connected(rows) as connection:
        connection.execute("SET lock_configuration = true")
        try:
            _demand_harmless(connection, sql)
            connection.execute("BEGIN TRANSACTION READ ONLY")
            return _answer(connection.execute(sql), limit)
        except duckdb.Error as refusal:
            _demand_read(rows)
            raise refused_sql("DuckDB", _message(refusal)) from None


@contextmanager
def connected(
    rows: Mapping[str, LakeDataset], memory: str = MEMORY
) -> Iterator[DuckDBPyConnection]:
    """Open a DuckDB inside the context that sees only these tables.

    Args:
        rows: The tables by name.
        memory: The memory limit; larger data goes to disk, up to DISK.

    Raises:
        SetupError: Only Spark can read a file of a table.
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


def _demand_read(rows: Mapping[str, LakeDataset]) -> None:
    for name, each in rows.items():
        if each.fault is not None:
            raise _unread(name, each.fault) from None


def _demand_harmless(connection: DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise SetupError(
            f"query takes one statement, and this is {len(statements)}", cure="run them one by one"
        )
    if _kind(statements[0]) not in _ASKED:
        raise changing_sql("SELECT, WITH, FROM, SHOW, DESCRIBE, SUMMARIZE")


def _kind(statement: Any) -> str:
    """Return the kind of a statement; empty for a kind that DuckDB's Python API does not name."""
    try:
        return str(statement.type.name)
    except ValueError:
        return ""


def _answer(found: DuckDBPyConnection, limit: int) -> QueryAnswer:
    """Read at most one row more than the limit, to know whether there are more."""
    columns = [each[0] for each in found.description or ()]
    rows: list[tuple[Any, ...]] = []
    while not limit or len(rows) <= limit:
        fetched = found.fetchmany(min(_FETCHED, limit + 1 - len(rows)) if limit else _FETCHED)
        if not fetched:
            break
        rows += [tuple(map(_json_value, row)) for row in fetched]
    more = bool(limit) and len(rows) > limit
    return QueryAnswer(columns, rows[:limit] if limit else rows, more)


def _json_value(value: Any) -> Any:
    """Return an integer beyond 64 bits as text, as Spark does: sums of DuckDB are HUGEINT, which
    JSON cannot hold.
    """
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return str(value)
    return value


def _unread(name: str, fault: Exception) -> SetupError:
    return SetupError(
        f"{name} cannot be read without Spark: {_message(fault)}",
        setting="pipeline.lake",
        cure="add --engine spark; skybridge pipeline maintain rewrites files with deleted rows",
    )


def _message(refusal: Exception) -> str:
    """Return the message of an error without the SQL line that DuckDB appends."""
    text = str(refusal).split("\n\nLINE ")[0]
    return " ".join(text.split())
