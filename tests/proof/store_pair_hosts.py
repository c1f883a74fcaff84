"""The store of the laboratory as a pair: PostgreSQL with a standby on another host, which can be promoted.

A commit returns when the standby has it too (``synchronous_standby_names``), so a promotion loses nothing. Without
this setting a promotion loses the commits that the standby did not have yet: that is the control.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import psycopg

from postgres_server import PASSWORD, PROGRAMS, USER, install
from proof.network import Network
from proof.store_host import PORT, Postgres
from waiting import wait_until

_REPLICATED = {
    "wal_keep_size": "256MB",
    "wal_receiver_timeout": "5s",
    "wal_sender_timeout": "5s",
    "wal_retrieve_retry_interval": "1s",
}


class Member(Postgres):
    """One server of the pair.

    Attributes:
        source: The primary that this server copies when it is made; None: it is made empty, as a primary.
    """

    source: Member | None = None

    def prepare(self) -> None:
        if self.source is None:
            super().prepare()
            return
        words = ["-d", self.source.dsn, "-D", str(self.data), "-R", "-X", "stream", "-c", "fast"]
        self.host.run(_copier(), *words, "--no-sync", user=self.user)
        with (self.data / "postgresql.auto.conf").open("a") as settings:
            address = f"host={self.source.host.address} port={PORT} user={USER} password={PASSWORD}"
            settings.write(f"primary_conninfo = '{address} application_name={self.name}'\n")
            settings.write("synchronous_standby_names = ''\n")  # the last line of a name counts

    def command(self) -> Sequence[str]:
        return [*super().command(), *(f"-c{name}={value}" for name, value in _REPLICATED.items())]

    def ask(self, statement: str) -> object:
        """Run a statement outside of a transaction, and return the first value of its first row, if it has one."""
        with psycopg.connect(self.dsn, autocommit=True, connect_timeout=3) as connection:
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            row = cursor.fetchone() if cursor.description else None
        return None if row is None else row[0]

    def accepts_writes(self) -> bool:
        try:
            return self.ask("SELECT pg_is_in_recovery()") is False
        except psycopg.OperationalError:
            return False


def _copier() -> str:
    """Return the path of ``pg_basebackup``, which is not always in the folder of the server's programs."""
    beside = install() / "pg_basebackup"
    return str(beside if beside.exists() else max(PROGRAMS.glob("*/bin/pg_basebackup")))


class StorePair:
    """Two servers, one of which accepts writes while the other one copies it.

    Attributes:
        primary: The server that accepts writes.
        standby: The server that copies it.
        synchronous: Whether a commit waits for the standby.
        members: Both servers, by the names of their hosts.
    """

    names = ("store", "standby")
    synchronous: ClassVar[bool] = True

    def __init__(self, network: Network, folder: Path) -> None:
        self.primary, self.standby = (Member(network[name], folder) for name in self.names)
        self.members = {each.name: each for each in (self.primary, self.standby)}

    def dsn(self, database: str = "postgres") -> str:
        """Return the address of a database at whichever server accepts writes."""
        hosts = ",".join(f"{each.host.address}:{PORT}" for each in self.members.values())
        query = "target_session_attrs=read-write&connect_timeout=2"
        return f"postgresql://{USER}:{PASSWORD}@{hosts}/{database}?{query}"

    def start(self) -> None:
        self.primary.start()
        self._copy()

    def promote(self) -> None:
        """Make the standby the primary. Return when it accepts writes."""
        self.standby.ask("SELECT pg_promote(true, 60)")
        self.primary, self.standby = self.standby, self.primary
        wait_until(self.primary.accepts_writes, "the promoted server to accept writes", turn=0.1)

    def heal(self) -> None:
        """Make the pair whole again. A server that was the primary before becomes a fresh copy."""
        for each in self.members.values():
            each.resume()
        if not self.primary.running:
            self.primary.start()
        if not self.in_step():
            with suppress(psycopg.OperationalError):
                self._wait_for_standby("")
            self._copy()

    def place(self, role: str) -> str:
        """Return the host of a role at this moment: ``primary`` or ``copy``."""
        return {"primary": self.primary.name, "copy": self.standby.name}.get(role, role)

    def in_step(self) -> bool:
        """Return True if the standby follows the primary."""
        state = "sync" if self.synchronous else "async"
        try:
            return self.primary.ask("SELECT sync_state FROM pg_stat_replication") == state
        except psycopg.OperationalError:
            return False

    def _copy(self) -> None:
        self.standby.kill_if_running()
        shutil.rmtree(self.standby.folder, ignore_errors=True)
        self.standby.source = self.primary
        self.standby.start()
        self._wait_for_standby(self.standby.name if self.synchronous else "")
        wait_until(self.in_step, "the standby to follow", turn=0.1)

    def _wait_for_standby(self, names: str) -> None:
        """Let commits of the primary wait for the standby of this name, or for none."""
        self.primary.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.primary.ask("SELECT pg_reload_conf()")


class UnsafePair(StorePair):
    """The control: a commit does not wait for the standby, so a promotion may lose it."""

    synchronous = False
