"""Open the tables of the lake with PyIceberg, without Java.

A catalog stores where the newest metadata file of a table is. For databases and file systems this
module reads that itself. Java's addresses of databases differ from PyIceberg's, and PyIceberg's
database client takes half a second to import. For other databases, REST, Hive and Glue the clients
of PyIceberg are used.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from app.errors import LakeUnavailable, SetupError
from app.pipeline import tables
from app.pipeline.settings import Lake
from app.spark.session import CATALOG, first_line
from app.spark.settings import LakeCatalog

if TYPE_CHECKING:
    from pyiceberg.table import Table

SQLITE: Final = "jdbc:sqlite:"
POSTGRES: Final = "jdbc:postgresql:"
_WAIT: Final = 60.0  # seconds for a writer of the SQLite catalog
_WHERE: Final = (
    "SELECT metadata_location FROM iceberg_tables"
    " WHERE catalog_name = {0} AND table_namespace = {0} AND table_name = {0}"
)
_LIBPQ: Final = {"user", "password", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword"}
"""The connection parameters that have the same meaning in Java's driver and in libpq."""

_REST: Final = "pyiceberg.exceptions."
_AWAY: Final = {
    "builtins.ConnectionError",
    "builtins.TimeoutError",
    "psycopg.OperationalError",
    "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
    "thrift.transport.TTransport.TTransportException",
    "botocore.exceptions.BotoCoreError",
    f"{_REST}ServerError",
    f"{_REST}ServiceUnavailableError",
    f"{_REST}TooManyRequestsError",
    f"{_REST}UnauthorizedError",
    f"{_REST}AuthorizationExpiredError",
    f"{_REST}ForbiddenError",
    f"{_REST}OAuthError",
}

_CURE: Final = (
    "check pipeline.lake, and install PyIceberg's client of this catalog; Spark reads every catalog"
    " that the archive writes"
)


def open_table(lake: Lake, name: str) -> Table:
    """Open a table at its newest snapshot.

    Raises:
        SetupError: The table is missing or has an unsupported format, or PyIceberg does not support
            its catalog or storage.
        LakeUnavailable: The catalog or the storage does not answer, or refuses.
    """
    try:
        table = _table(lake, name)
    except Exception as why:  # databases, file systems and clients have various errors
        if (fault := away_fault(why)) is not None:
            raise fault from why
        raise SetupError(
            f"{lake.table(name)} cannot be opened by PyIceberg: {first_line(why)}",
            setting="pipeline.lake",
            cure=_CURE,
        ) from why
    found = None if table is None else table.properties.get(tables.FORMAT_PROPERTY, "none")
    tables.demand_formats(lake, {name: found})
    assert table is not None  # noqa: S101 - a missing table has no format
    return table


def away_fault(error: Exception) -> LakeUnavailable | None:
    """Return the error for the operator if a catalog or a storage does not answer, or refuses the login;
    None for other errors.

    Errors are known by their classes. The clients are not imported for this, because few lakes need
    them. Arrow has one class for all errors of an object store: OSError, without a number.
    """
    lineage = {f"{each.__module__}.{each.__qualname__}" for each in type(error).__mro__}
    if not lineage & _AWAY and not (type(error) is OSError and error.errno is None):
        return None
    return LakeUnavailable(
        f"the catalog or the storage does not answer, or refuses: {first_line(error)}",
        setting="pipeline.lake",
        cure="Start it, or correct its address or the login. The same command then succeeds.",
    )


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Raise LakeUnavailable instead of an error inside the context that means: no answer."""
    try:
        yield
    except Exception as error:
        if (fault := away_fault(error)) is not None:
            raise fault from error
        raise


def demand_catalog(lake: Lake) -> None:
    """Raise SetupError if this machine's catalog file is missing, before Spark starts."""
    file = _file(lake.catalog.uri)
    if file is not None and not file.exists():
        tables.demand_formats(lake, {tables.RAW_TABLE: None})


def requirements() -> None:
    """Raise SetupError if the extra ``pipeline`` is missing, before Python fails with an unclear
    error.
    """
    if find_spec("duckdb") is None or find_spec("pyiceberg") is None:
        raise SetupError(
            "the lake is read by DuckDB and PyIceberg, which are not installed",
            cure="install the extra pipeline (make install does), or use the image pipeline",
        )


def _table(lake: Lake, name: str) -> Table | None:
    catalog = lake.catalog
    row = (CATALOG, lake.namespace, name)
    if catalog.kind == "hadoop":
        place = _of_files(lake, name)
    elif (file := _file(catalog.uri)) is not None:
        place = _of_sqlite(file, row)
    elif catalog.uri.startswith(POSTGRES):
        place = _of_postgresql(catalog, row)
    else:
        return _of_client(lake, name)
    if place is None:
        return None
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - heavy, and an extra

    return StaticTable.from_metadata(place, dict(catalog.properties))


def _of_client(lake: Lake, name: str) -> Table | None:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError  # noqa: PLC0415

    catalog = lake.catalog
    kind = "sql" if catalog.kind == "jdbc" else catalog.kind
    address = {"uri": catalog.uri.removeprefix("jdbc:")} if catalog.uri else {}
    own = {"type": kind, **address, "warehouse": catalog.warehouse}
    try:
        found = load_catalog(CATALOG, **own, **catalog.properties)
        return found.load_table((lake.namespace, name))
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def _of_files(lake: Lake, name: str) -> str | None:
    """Return the newest metadata file of a ``hadoop`` catalog.

    The search starts at the version in the hint file and goes on to later versions, because the
    hint may be old or missing.
    """
    from pyiceberg.io import load_file_io  # noqa: PLC0415

    folder = f"{lake.catalog.warehouse}/{lake.namespace}/{name}/metadata"
    files = load_file_io(dict(lake.catalog.properties), folder)

    def version(number: int) -> str:
        return f"{folder}/v{number}.metadata.json"

    hint = files.new_input(f"{folder}/version-hint.text")
    at = 0
    if hint.exists():
        with hint.open() as text:
            at = int(text.read())
    while files.new_input(version(at + 1)).exists():
        at += 1
    return version(at) if at else None


def _file(uri: str) -> Path | None:
    """Return the file of a SQLite catalog; None for another catalog."""
    if not uri.startswith(SQLITE):
        return None
    return Path(uri.removeprefix(SQLITE).partition("?")[0]).absolute()


def _of_sqlite(file: Path, row: tuple[str, ...]) -> str | None:
    """Return the newest metadata file from a SQLite catalog, opened read-only so that no file is
    created.
    """
    if not file.exists():
        return None
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=_WAIT)
    with contextlib.closing(connection):
        there = "SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'"
        if connection.execute(there).fetchone() is None:
            return None
        found = connection.execute(_WHERE.format("?"), row).fetchone()
        return None if found is None else str(found[0])


def _of_postgresql(catalog: LakeCatalog, row: tuple[str, ...]) -> str | None:
    import psycopg.conninfo  # noqa: PLC0415 - few catalogs are in PostgreSQL

    address = urlsplit(catalog.uri.removeprefix("jdbc:"))
    given = {key: value for key, value in parse_qsl(address.query) if key in _LIBPQ}
    own = {each: catalog.properties.get(f"jdbc.{each}") for each in ("user", "password")}
    words = {"sslpassword": "-", **given, **{key: value for key, value in own.items() if value}}
    if schema := dict(parse_qsl(address.query)).get("currentSchema"):
        words["options"] = f"-csearch_path={schema}"
    dsn = psycopg.conninfo.make_conninfo(address._replace(query="").geturl(), **words)
    with psycopg.connect(dsn) as connection:
        try:
            found = connection.execute(_WHERE.format("%s"), row).fetchone()
            return None if found is None else str(found[0])
        except psycopg.errors.UndefinedTable:
            return None
