"""The store of the laboratory: PostgreSQL on a host of its own, which all workers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg

from postgres_server import PASSWORD, SETTINGS, USER, install, unprivileged
from proof.hosts import Host
from proof.processes import HostProcess

PORT = 5432


class Postgres(HostProcess):
    """A PostgreSQL server. Its superuser is ``USER``, from every host."""

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
