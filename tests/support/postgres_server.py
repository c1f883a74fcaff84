"""One real PostgreSQL on loopback, run as a process from the system's package.

::

    python -m postgres_server start       a server that stays; fixtures use it instead of their own
    python -m postgres_server status      where it listens, and whether it answers
    python -m postgres_server stop

PostgreSQL refuses to run as root: then it runs as ``postgres``, or as ``nobody``.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psycopg

from kafka_install import SERVERS, Missing
from kafka_server import _die_with_parent, _free_ports

READY_WITHIN = 120.0  # seconds
STATE = SERVERS / "postgresql.json"
PROGRAMS = Path("/usr/lib/postgresql")  # one folder a version below it
USER, PASSWORD = "sky", "not-to-be-shown"

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "log_min_messages": "warning",
    # What a killed process has given to the operating system is there: only a power cut would lose it.
    "fsync": "off",
}


def install() -> Path:
    """The folder of its programs, of the newest version. The package comes from the system."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    versions = sorted(PROGRAMS.glob("*/bin"), key=lambda each: float(each.parent.name))
    if not versions or not (versions[-1] / "initdb").exists():
        raise Missing("PostgreSQL is not installed (on Debian: apt-get install postgresql)")
    return versions[-1]


class PostgresServer:
    """``start`` returns when it answers. Port and data stay the same through kill and restart."""

    def __init__(self, *, outlives_us: bool = False) -> None:
        (self.port,) = _free_ports(1)
        self.folder = Path(tempfile.mkdtemp(prefix="skybridge-postgresql-"))
        self._outlives_us = outlives_us
        self._user = _unprivileged()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        return _dsn(self.port)

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def start(self) -> None:
        programs = install()
        if not (self.folder / "data").exists():
            self._init(programs)
        settings = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        place = ["-D", str(self.folder / "data"), "-p", str(self.port)]
        self._process = self._spawn([str(programs / "postgres"), *place, *settings])
        self._wait_until_answering()

    def kill(self) -> None:
        """SIGKILL: its other processes notice and end."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Up again on the same port and data; sessions of before are cut."""
        self._end(signal.SIGINT)
        self.start()

    def pause(self) -> None:
        """SIGSTOP: of the process that takes connections; those that are open go on."""
        os.kill(self.pid, signal.SIGSTOP)

    def revive(self) -> None:
        """Up, whatever a test has done to it."""
        assert self._process is not None
        if self._process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
            self._wait_until_answering()
        else:
            self.start()

    def stop(self) -> None:
        """For good. The data is thrown away."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _init(self, programs: Path) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if self._user is not None:
            shutil.chown(self.folder, self._user)
            shutil.chown(secret, self._user)
        options = ["--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8", "--no-sync"]
        made = self._spawn(
            [str(programs / "initdb"), *options, "-U", USER, "-D", str(self.folder / "data")]
        )
        if made.wait(READY_WITHIN):
            raise RuntimeError(f"initdb failed: {self.log.read_text()[-2000:]}")

    def _wait_until_answering(self) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while not answers(self.port):
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"PostgreSQL did not come up: {self.log.read_text()[-2000:]}")
            time.sleep(0.02)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(how)
        self._process.send_signal(signal.SIGCONT)
        self._process.wait(READY_WITHIN)

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                env={**os.environ, "LC_ALL": "C.UTF-8", "HOME": str(self.folder)},
                cwd=self.folder,
                user=self._user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C meant for the tests is not meant for it
                preexec_fn=None if self._outlives_us else _die_with_parent(),  # noqa: PLW1509
            )


def fresh_database(dsn: str) -> str:
    """Tables of one's own on the server of ``dsn``: a schema, which looks like an empty database. A real
    one costs a thousand files, to be written and to be deleted."""
    name = f"store_{uuid.uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[arg-type]
    return f"{dsn}?options=-csearch_path%3D{name}"


def answers(port: int) -> bool:
    try:
        psycopg.connect(_dsn(port), connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def running() -> str | None:
    """DSN of the server of ``start``, if it answers."""
    if not STATE.exists():
        return None
    port = json.loads(STATE.read_text())["port"]
    return _dsn(port) if answers(port) else None


def _dsn(port: int) -> str:
    return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"


def _unprivileged() -> str | None:
    """Whom to run as, when we are root."""
    if os.getuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _start() -> None:
    if (dsn := running()) is None:
        server = PostgresServer(outlives_us=True)
        server.start()
        state = {"pid": server.pid, "port": server.port, "folder": str(server.folder)}
        SERVERS.mkdir(exist_ok=True)
        STATE.write_text(json.dumps(state))
        dsn = server.dsn
    print(f"PostgreSQL answers on {dsn}")


def _stop() -> None:
    if not STATE.exists():
        print("PostgreSQL was not started here")
        return
    state = json.loads(STATE.read_text())
    if answers(state["port"]):  # else the process id may be somebody else's by now
        os.kill(state["pid"], signal.SIGKILL)
    shutil.rmtree(state["folder"], ignore_errors=True)
    STATE.unlink()
    print("PostgreSQL stopped")


def _status() -> None:
    dsn = running()
    print(f"PostgreSQL answers on {dsn}" if dsn else "PostgreSQL is not running")


def main() -> int:
    verbs: dict[str, Callable[[], object]] = {"start": _start, "stop": _stop, "status": _status}
    parser = argparse.ArgumentParser(prog="postgres_server", description="A real PostgreSQL.")
    parser.add_argument("verb", choices=verbs)
    try:
        verbs[parser.parse_args().verb]()
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
