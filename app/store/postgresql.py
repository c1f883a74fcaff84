"""Opens the store in a PostgreSQL database, which several processes may share.

READ COMMITTED, with the row of the owner locked before a fenced write (``owners``) and the rows that are
handed out locked while they are (``SKIP LOCKED``): two processes wait for each other or pass each other
by, and neither has to restart for the sake of a row that nobody else wants.
"""

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
from app.store import schema
from app.tls import Copies, Pems, Tried

SETTING = "store.dsn"
_BOUNDS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
_NO_KEY = "-"  # in place of a pass phrase: an empty one would make libpq ask the terminal for it
_LOCK = 0x736B79  # held while the schema changes; the number means nothing elsewhere

# Of the connection, where the DSN does not say otherwise: one whose other end vanished is noticed.
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
    """Where it is, for a person: no user, no password."""
    said = conninfo_to_dict(dsn)
    host, port = said.get("host") or "localhost", said.get("port") or "5432"
    return f"postgresql://{host}:{port}/{said.get('dbname') or ''}"


def engine_of(dsn: str, timeout: float) -> Engine:
    """One connection at a time, made again when its server went away. ``timeout`` bounds a statement, the
    wait for a lock, and how long a process that stands still may keep one."""
    connection: dict[str, Any] = {
        **_MANNERS,
        "connect_timeout": max(2, round(timeout)),
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
    return engine


def pems_of(dsn: str) -> Pems:
    """Return the PEM files that libpq would read for this DSN, its variables and its folder in the home included. A key
    in an engine (``pkcs11:...``) is no file, and ``sslrootcert=system`` neither."""
    defaults = {each.keyword: each.val for each in psycopg.pq.Conninfo.get_defaults()}
    given = {name.decode(): value.decode() for name, value in defaults.items() if value}
    said: dict[str, Any] = {**given, **conninfo_to_dict(dsn)}
    if said.get("sslmode") == "disable":
        return Pems(setting=SETTING)
    cert, key = _file(said, "sslcert", "postgresql.crt"), _file(said, "sslkey", "postgresql.key")
    paired = cert is not None and key is not None and said.get("sslcertmode") != "disable"
    root = said.get("sslrootcert")
    return Pems(
        setting=SETTING,
        cert=cert if paired else None,
        key=key if paired else None,
        ca=Path(root) if root and root != "system" else None,
        cert_part="sslcert",
        key_part="sslkey",
        ca_part="sslrootcert",
        password=said.get("sslpassword") or "",
    )


def _file(said: dict[str, Any], name: str, default: str) -> Path | None:
    if given := said.get(name):
        return None if ":" in given else Path(given)
    there = Path("~/.postgresql", default).expanduser()
    return there if there.is_file() else None


def _files_of(pems: Pems) -> Callable[[], dict[str, str]]:
    """Return what tells libpq of copies of the files as they were tried last. Raises SetupError for files that cannot
    be used."""
    if not pems.files:
        return dict
    tried = Tried(pems, partial(Copies, pems))

    def told() -> dict[str, str]:
        tried.look()
        copies = tried.current.pems
        named = {"sslcert": copies.cert, "sslkey": copies.key, "sslrootcert": copies.ca}
        return {name: str(path) for name, path in named.items() if path is not None}

    return told


def open_engine(dsn: str, timeout: float) -> Engine:
    """As ``engine_of``, with the schema of this release. Raises SetupError for a database that cannot be
    used, or that a newer release wrote."""
    engine = engine_of(dsn, timeout)
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
    """One process does it; those that start beside it wait, and find it done."""
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
