"""The store of the laboratory: PostgreSQL on a host of its own, which all workers share."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg

from postgres_server import PASSWORD, SETTINGS, USER, install, unprivileged
from proof.hosts import Host
from proof.network import Network
from proof.processes import HostProcess

PORT = 5432


class Postgres(HostProcess):
    """A PostgreSQL server. Its superuser is ``USER``, from every host."""

    stopped_by = signal.SIGINT  # SIGTERM would wait until all sessions have ended

    def __init__(self, host: Host, folder: Path) -> None:
        super().__init__(host, folder / host.name)
        self.user = unprivileged()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def dsn(self) -> str:
        """Return the address of the database, as hosts and the runner reach it."""
        return f"postgresql://{USER}:{PASSWORD}@{self.host.address}:{PORT}/postgres"

    def prepare(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        options = ["--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8", "--no-sync"]
        self.host.run(
            *(str(install() / "initdb"), *options, "-U", USER, "-D", str(self.data)), user=self.user
        )
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write(
                "host all all 10.0.0.0/8 scram-sha-256\nhost replication all 10.0.0.0/8 scram-sha-256\n"
            )

    def environ(self) -> Mapping[str, str]:
        return {"LC_ALL": "C.UTF-8", "HOME": str(self.folder)}

    def command(self) -> Sequence[str]:
        settings = {**SETTINGS, "listen_addresses": "*"}
        given = [f"-c{name}={value}" for name, value in settings.items()]
        return [str(install() / "postgres"), "-D", str(self.data), "-p", str(PORT), *given]

    def answers(self) -> bool:
        try:
            psycopg.connect(self.dsn, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


class SingleStore:
    """One PostgreSQL, as ``proof.laboratory`` wants a store.

    Attributes:
        members: Its servers, by the names of their hosts.
    """

    names: tuple[str, ...] = ("store",)

    def __init__(self, network: Network, folder: Path) -> None:
        self._server = Postgres(network[self.names[0]], folder)
        self.members: Mapping[str, HostProcess] = {self._server.name: self._server}

    def dsn(self, database: str = "postgres") -> str:
        """Return the address of a database."""
        return self._server.dsn.rpartition("/")[0] + f"/{database}"

    def start(self) -> None:
        self._server.start()

    def heal(self) -> None:
        """Return when the server answers again."""
        self._server.resume()
        if not self._server.running:
            self._server.begin()
        self._server.wait_until_answering()

    def promote(self) -> None:
        raise NotImplementedError("this store has no standby")

    def place(self, role: str) -> str:
        return role
