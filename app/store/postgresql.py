"""Open the store in a PostgreSQL database, which several processes may share.

The isolation level is READ COMMITTED. The owner's row is locked before a fenced write (``owners``), and received
rows are locked with ``SKIP LOCKED``. So processes wait for each other or skip each other's rows, and no transaction
has to restart because of a row that only it wants."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from app.errors import SetupError
from app.interfaces.clock import ServerClock
from app.store import schema
from app.tls import Copies, PemReloader, Pems

SETTING = "store.dsn"
_BOUNDS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
_NO_KEY = "-"  # instead of an empty pass phrase, for which libpq would ask on the terminal
_LOCK = 0x736B79  # number of the advisory lock for schema changes

# Defaults of the connection, so that a dead peer is noticed. The DSN may override them. Keepalives notice a peer that is
# gone while a connection is idle, and ``tcp_user_timeout`` one that is gone before it has received a statement: Linux
# would send that again for a quarter of an hour.
_MANNERS = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "application_name": "skybridge",
}

# A commit is durable when it returns. Stronger settings of the server (remote_apply) stay.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
)


def name_of(dsn: str) -> str:
    """Return the address of a database for messages, without user and password."""
    settings = conninfo_to_dict(dsn)
    hosts = str(settings.get("host") or "localhost").split(",")
    ports = str(settings.get("port") or "5432").split(",")
    ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
    servers = ",".join(f"{host}:{port or 5432}" for host, port in zip(hosts, ports, strict=True))
    return f"postgresql://{servers}/{settings.get('dbname') or ''}"


def engine_of(dsn: str, timeout: float, clock: ServerClock | None = None) -> Engine:
    """Return an engine with one connection, which is replaced after the server closed it.

    Args:
        dsn: the address of the database.
        timeout: bounds a statement, the wait for a lock, and an idle transaction, in seconds.
        clock: gets the server's time of each new connection, and later whenever a measurement is due.
    """
    connection: dict[str, Any] = {
        **_MANNERS,
        "connect_timeout": max(2, round(timeout)),
        "tcp_user_timeout": max(2000, round(timeout * 1000)),
        **conninfo_to_dict(dsn),
    }
    connection["sslpassword"] = connection.get("sslpassword") or _NO_KEY
    files = _files_of(pems_of(dsn))
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(**connection | files()),
        isolation_level="READ COMMITTED",
        pool_size=1,
        max_overflow=0,
        pool_pre_ping=True,
        hide_parameters=True,
    )
    milliseconds = max(1, round(timeout * 1000))
    event.listen(engine, "connect", lambda raw, _: _prepare(raw, milliseconds))
    if clock is not None:
        event.listen(engine, "connect", lambda raw, _: _measure(raw, clock))
        event.listen(engine, "checkout", lambda raw, *_: _measure(raw, clock, again=True))
    return engine


def pems_of(dsn: str) -> Pems:
    """Return the PEM files that libpq would read for this DSN, with its environment variables and default folder.

    A key in an engine (``pkcs11:...``) and ``sslrootcert=system`` are not files."""
    defaults = {each.keyword: each.val for each in psycopg.pq.Conninfo.get_defaults()}
    given = {name.decode(): value.decode() for name, value in defaults.items() if value}
    settings: dict[str, Any] = {**given, **conninfo_to_dict(dsn)}
    if settings.get("sslmode") == "disable":
        return Pems(setting=SETTING)
    cert, key = (
        _file(settings, "sslcert", "postgresql.crt"),
        _file(settings, "sslkey", "postgresql.key"),
    )
    paired = cert is not None and key is not None and settings.get("sslcertmode") != "disable"
    root = settings.get("sslrootcert")
    return Pems(
        setting=SETTING,
        cert=cert if paired else None,
        key=key if paired else None,
        ca=Path(root) if root and root != "system" else None,
        cert_part="sslcert",
        key_part="sslkey",
        ca_part="sslrootcert",
        password=settings.get("sslpassword") or "",
    )


def _file(settings: dict[str, Any], name: str, default: str) -> Path | None:
    if given := settings.get(name):
        return None if ":" in given else Path(given)
    there = Path("~/.postgresql", default).expanduser()
    return there if there.is_file() else None


def _files_of(pems: Pems) -> Callable[[], dict[str, str]]:
    """Return a function that returns the libpq settings. They name copies of the files, as they were when last
    checked."""
    if not pems.files:
        return dict
    tried = PemReloader(pems, partial(Copies, pems))

    def current_files() -> dict[str, str]:
        tried.look()
        copies = tried.current.pems
        named = {"sslcert": copies.cert, "sslkey": copies.key, "sslrootcert": copies.ca}
        return {name: str(path) for name, path in named.items() if path is not None}

    return current_files


def open_engine(dsn: str, timeout: float, clock: ServerClock | None = None) -> Engine:
    """Return an engine as ``engine_of``, with the schema of this release.

    Raises:
        SetupError: the database cannot be used, or a newer release wrote it.
    """
    engine = engine_of(dsn, timeout, clock)
    with ExitStack() as undoing:
        undoing.callback(engine.dispose)
        try:
            with engine.begin() as first:
                _bring_up(first, name_of(dsn))
        except DBAPIError as error:
            raise SetupError(
                f"the store {name_of(dsn)} cannot be used: {' '.join(str(error.orig).split())}",
                setting=SETTING,
                cure="see that the server runs, and that the user may create tables in this database",
            ) from None
        undoing.pop_all()
    return engine


def _bring_up(connection: Connection, name: str) -> None:
    """Upgrade the schema. One process does so; others that start at the same time wait."""
    for bound in _BOUNDS:
        connection.exec_driver_sql(f"SET LOCAL {bound} = 0")
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    revision = schema.found(connection)
    schema.demand_known(revision, name, SETTING)
    schema.bring_up(connection, revision)


def _prepare(connection: psycopg.Connection[Any], milliseconds: int) -> None:
    for setting in _BOUNDS:
        connection.execute(f"SET {setting} = {milliseconds}")
    connection.execute(_DURABLE)
    connection.commit()


def _measure(
    connection: psycopg.Connection[Any], clock: ServerClock, *, again: bool = False
) -> None:
    """Read the server's clock. With ``again``, do so only if a measurement is due."""
    if again and not clock.is_due():
        return
    question = clock.ask()
    for (server,) in connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8"):
        clock.measured(server, server, question)
    connection.rollback()
