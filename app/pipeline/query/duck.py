"""Answer one SQL question with DuckDB, in this process and without Java. The SQL can read only the
tables of the lake.

The SQL may come from anyone. So DuckDB's settings forbid access to files, the network, extensions
and the variables of this process. The settings are locked before DuckDB reads the SQL.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from app.errors import SetupError
from app.pipeline import tables
from app.pipeline.latest import SUFFIX, latest_rows
from app.pipeline.no_pandas import without_pandas
from app.pipeline.query.opening import away_fault, open_table
from app.pipeline.settings import Lake
from app.pipeline.typed.schema import PREFIX

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from app.pipeline.query.scan import LakeDataset

MEMORY: Final = "1GB"
"""The memory that DuckDB may use for a question."""

DISK: Final = "10GB"
_THREADS: Final = 4
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

METADATA: Final = ("snapshots", "history", "files", "partitions", "manifests")
"""The tables that PyIceberg makes of Iceberg's metadata: ``events_snapshots`` lists those of ``events``."""


class QueryAnswer(msgspec.Struct, frozen=True):
    """The rows that a question returns.

    Attributes:
        columns: The names of the columns.
        rows: The values as Python objects, in the order of the columns.
        more: Whether the limit left out rows.
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]
    more: bool


def ask(lake: Lake, sql: str, *, limit: int, at: datetime | None = None) -> QueryAnswer:
    """Return the first ``limit`` rows of a SELECT, SHOW, DESCRIBE or EXPLAIN; all rows if ``limit``
    is 0. With ``at``, the tables have the rows that they had at this time.

    Raises:
        SetupError: DuckDB refuses the SQL, the statement would change something, the lake cannot be
            read, or no snapshot is as old as ``at``.
    """
    rows: dict[str, LakeDataset | pa.Table] = {**_metadata_of(lake, sql)}
    if not rows or _named(lake, sql):
        rows |= datasets_of(lake, sql, at)
    return answer_from(rows, sql, limit=limit)


def datasets_of(lake: Lake, sql: str, at: datetime | None = None) -> dict[str, LakeDataset]:
    """Return the tables that the SQL names; all tables if it names none, as SHOW TABLES does."""
    if named := _named(lake, sql):
        return open_datasets(lake, named, at)
    found = open_datasets(lake, at=at)
    for each in lake.tables:
        with suppress(SetupError):  # the archive has not created the table yet
            found |= open_datasets(lake, [each.table], at)
    return found


def _named(lake: Lake, sql: str) -> list[str]:
    """Return the tables that the SQL names, also by the views of their newest rows."""
    return [name for name in _known(lake) if _names(sql, f"{name}(?:{SUFFIX})?")]


def _known(lake: Lake) -> list[str]:
    return [*tables.COLUMNS, *(each.table for each in lake.tables)]


def open_datasets(
    lake: Lake, wanted: Sequence[str] = tuple(tables.COLUMNS), at: datetime | None = None
) -> dict[str, LakeDataset]:
    """Return some tables by their names; by default all but the typed ones."""
    with without_pandas():  # half of the import time of Arrow's datasets
        from app.pipeline.query.scan import LakeDataset  # noqa: PLC0415 - heavy

    # The archive writes quarantine last, so it is opened first: the others have all that it counts as done.
    ordered = list(wanted)[::-1]
    ordered.sort(key=lambda name: name != tables.QUARANTINE_TABLE)
    found = {name: LakeDataset(open_table(lake, name), at) for name in ordered}
    return {name: found[name] for name in wanted}


def _metadata_of(lake: Lake, sql: str) -> dict[str, pa.Table]:
    """Return the metadata tables that the SQL names."""
    return {
        f"{name}_{what}": _inspected(lake, name, what)
        for name in _known(lake)
        for what in METADATA
        if _names(sql, f"{name}_{what}")
    }


def _inspected(lake: Lake, name: str, what: str) -> pa.Table:
    """Return a metadata table. PyIceberg cannot make some: it has no text for a day that Python cannot
    hold, and no partitions of a table without a snapshot."""
    table = open_table(lake, name)
    try:
        return getattr(table.inspect, what)()
    except Exception as why:  # those of the storage, and any of PyIceberg
        raise away_fault(why) or SetupError(
            f"{name}_{what} cannot be made by PyIceberg: {_message(why)}",
            cure=f"query {name}_files, or lake.{lake.namespace}.{name}.{what} in Spark",
        ) from why


def _names(sql: str, table: str) -> bool:
    """Return True if the SQL may name a table, which is a pattern."""
    return re.search(rf"\b{table}\b", sql, re.IGNORECASE) is not None


def answer_from(rows: Mapping[str, LakeDataset | pa.Table], sql: str, *, limit: int) -> QueryAnswer:
    """Answer a question as ``ask`` does, from these tables."""
    import duckdb  # noqa: PLC0415 - heavy, and an extra

    with connected(rows) as connection:
        for name in rows.keys() - {tables.RAW_TABLE, tables.QUARANTINE_TABLE}:
            if _names(sql, name + SUFFIX):
                prefix = "" if name == tables.EVENTS_TABLE else PREFIX
                newest = latest_rows(f'"{name}"', prefix=prefix, without="EXCLUDE")
                connection.execute(f"CREATE TEMP VIEW {name}{SUFFIX} AS {newest}")
        connection.execute("SET lock_configuration = true")
        try:
            _demand_harmless(connection, sql)
            connection.execute("BEGIN TRANSACTION READ ONLY")
            return _answer(connection.execute(sql), limit)
        except duckdb.Error as refusal:
            _demand_read(rows)
            raise SetupError(
                f"DuckDB refused this SQL: {_message(refusal)}",
                cure=f"the tables are {', '.join(tables.COLUMNS)}, and those of pipeline.tables; DESCRIBE events"
                " names the columns",
            ) from None


@contextmanager
def connected(
    rows: Mapping[str, LakeDataset | pa.Table], memory: str = MEMORY
) -> Iterator[DuckDBPyConnection]:
    """Open a DuckDB inside the context that sees only these tables.

    Args:
        rows: The tables by name.
        memory: The memory limit; larger data goes to disk, up to DISK.

    Raises:
        SetupError: PyIceberg cannot read a file of a table.
        LakeUnavailable: The storage does not answer.
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


def _demand_read(rows: Mapping[str, LakeDataset | pa.Table]) -> None:
    """Raise an error if a file could not be read, which DuckDB reports as an error of the SQL."""
    for name, each in rows.items():
        if (fault := getattr(each, "fault", None)) is not None:
            if (away := away_fault(fault)) is not None:
                raise away from None
            raise SetupError(
                f"{name} cannot be read by PyIceberg: {_message(fault)}",
                setting="pipeline.lake",
                cure="skybridge pipeline maintain rewrites files with deleted rows; Spark reads them as they are",
            ) from None


def _demand_harmless(connection: DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise SetupError(
            f"query takes one statement, and this is {len(statements)}", cure="run them one by one"
        )
    if _kind(statements[0]) not in _ASKED:
        raise SetupError(
            "query only reads, and this statement would change something",
            cure="SELECT, WITH, FROM, SHOW, DESCRIBE, SUMMARIZE and EXPLAIN are permitted;"
            " skybridge pipeline erase and maintain change the lake",
        )


def _kind(statement: Any) -> str:
    """Return the kind of a statement; empty for a kind that DuckDB's Python API does not name."""
    try:
        return str(statement.type.name)
    except ValueError:
        return ""


def _answer(found: DuckDBPyConnection, limit: int) -> QueryAnswer:
    """Read at most one row more than the limit, to know whether there are more."""
    columns = [each[0] for each in found.description or ()]
    fetched = found.fetchmany(limit + 1) if limit else found.fetchall()
    rows = [tuple(map(_json_value, row)) for row in fetched[: limit or None]]
    return QueryAnswer(columns, rows, more=len(fetched) > len(rows))


def _json_value(value: Any) -> Any:
    """Return an integer beyond 64 bits as text: sums of DuckDB are HUGEINT, which JSON cannot hold."""
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return str(value)
    return value


def _message(refusal: Exception) -> str:
    """Return the message of an error without the SQL line that DuckDB appends."""
    text = str(refusal).split("\n\nLINE ")[0]
    return " ".join(text.split())
