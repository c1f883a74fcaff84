"""A real PostgreSQL on loopback, run as a process from the package of the system.

::

    python -m postgres_server start       start a server that keeps running; fixtures use it
    python -m postgres_server status      print where it listens, and whether it answers
    python -m postgres_server stop

PostgreSQL refuses to run as root: then the server runs as ``postgres``, or as ``nobody``.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from free_ports import free_ports
from kafka_install import Missing
from persistent_server import PersistentServer
from server_process import ServerProcess

PROGRAMS = Path("/usr/lib/postgresql")  # has one folder for each installed version
USER, PASSWORD = "sky", "not-to-be-shown"

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "log_min_messages": "warning",
    # The operating system keeps the writes of a killed process; only a power cut would lose them.
    "fsync": "off",
}


def install() -> Path:
    """Return the folder of the programs of the newest installed version. Raise ``Missing`` if there
    is none."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    versions = sorted(PROGRAMS.glob("*/bin"), key=lambda each: float(each.parent.name))
    if not versions or not (versions[-1] / "initdb").exists():
        raise Missing("PostgreSQL is not installed (on Debian: apt-get install postgresql)")
    return versions[-1]


class PostgresServer(ServerProcess):
    """A PostgreSQL server whose postmaster receives the signals.

    After a SIGKILL of the postmaster, the backends notice and end. After a SIGSTOP, open connections
    continue to work.
    """

    name = "PostgreSQL"
    usual_port = 5432
    restarted_by = signal.SIGINT  # a fast shutdown: it ends open sessions

    def __init__(self, *, outlives_us: bool = False) -> None:
        super().__init__(outlives_us=outlives_us)
        (self.port,) = free_ports(1)
        self._user = unprivileged()

    @property
    def dsn(self) -> str:
        return self.addresses(self.ports)

    @staticmethod
    def addresses(ports: Mapping[str, int]) -> str:
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{ports['port']}/postgres"

    @staticmethod
    def answering(ports: Mapping[str, int]) -> bool:
        try:
            psycopg.connect(PostgresServer.addresses(ports), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def begin(self) -> None:
        programs = install()
        if not (self.folder / "data").exists():
            self._init(programs)
        settings = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        place = ["-D", str(self.folder / "data"), "-p", str(self.port)]
        self._process = self._spawn([str(programs / "postgres"), *place, *settings], **self._as())

    def _init(self, programs: Path) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if self._user is not None:
            shutil.chown(self.folder, self._user)
            shutil.chown(secret, self._user)
        options = ["--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8", "--no-sync"]
        made = self._spawn(
            [str(programs / "initdb"), *options, "-U", USER, "-D", str(self.folder / "data")],
            **self._as(),
        )
        if made.wait(self.ready_within):
            raise RuntimeError(f"initdb failed: {self.log.read_text()[-2000:]}")

    def _as(self) -> dict[str, Any]:
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "HOME": str(self.folder)}
        return {"env": environment, "user": self._user}


def fresh_database(dsn: str) -> str:
    """Create an empty schema on the server, and return a DSN that uses it as its search path.

    The schema looks like an empty database. A real database would cost a thousand files.
    """
    name = f"store_{uuid.uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[arg-type]
    return f"{dsn}?options=-csearch_path%3D{name}"


def delete_rows(dsn: str) -> None:
    """Delete all rows of the store in the schema of ``dsn``, and restart its numbers.

    It takes less than half of the time of a new schema.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        names = connection.execute(_TABLES).fetchall()
        tables = ", ".join(name for (name,) in names)
        connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")  # type: ignore[arg-type]


_TABLES = """
    SELECT tablename FROM pg_tables
    WHERE schemaname = current_schema() AND tablename NOT IN ('alembic_version', 'skybridge_schema')
"""


def unprivileged() -> str | None:
    """Return the user to run as if the tests run as root, else None."""
    if os.getuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


STANDING = PersistentServer(PostgresServer, install)


def running() -> str | None:
    """Return the DSN of the server that ``start`` started, or None if it does not answer."""
    ports = STANDING.ports()
    return None if ports is None else PostgresServer.addresses(ports)


if __name__ == "__main__":
    sys.exit(STANDING.main())
