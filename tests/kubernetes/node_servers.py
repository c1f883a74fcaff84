"""Kafka and PostgreSQL as processes in the network of the first node, for the pods of the laboratory."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import objects
import psycopg
from laboratory import Laboratory

from kafka_server import KafkaServer
from postgres_server import PASSWORD, USER, PostgresServer

ADDRESS = "10.99.0.1"
_ANY = "0.0.0.0"
_CONTROLLER = 9093


class NodeKafka(KafkaServer):
    """A broker that pods reach as 10.99.0.1:9092."""

    def __init__(self, lab: Laboratory) -> None:
        super().__init__({
            "listeners": f"PLAINTEXT://{_ANY}:9092,CONTROLLER://127.0.0.1:{_CONTROLLER}",
            "advertised.listeners": f"PLAINTEXT://{ADDRESS}:9092",
        })  # fmt: skip
        self.port, self.controller_port = 9092, _CONTROLLER
        self._lab = lab

    def answers(self) -> bool:
        return _answers(self._lab, super().answers)

    def _spawn(self, command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        return super()._spawn(self._lab.first.inside(*command), **more)


class NodePostgres(PostgresServer):
    """A PostgreSQL server that pods reach as 10.99.0.1:5432."""

    def __init__(self, lab: Laboratory) -> None:
        super().__init__()
        self.port = 5432
        self._lab = lab

    @property
    def dsn(self) -> str:
        return f"postgresql://{USER}:{PASSWORD}@postgresql:5432/postgres"

    def answers(self) -> bool:
        return _answers(self._lab, super().answers)

    def _init(self, programs: Path) -> None:
        super()._init(programs)
        with (self.folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.99.0.0/16 scram-sha-256\n")

    def _spawn(self, command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        """Enter the network as root, and become the user of the server after it."""
        if user := more.pop("user", None):
            own = ("--reuid", user, "--regid", user, "--clear-groups", "--pdeathsig", "KILL")
            command = ["setpriv", *own, *command]
        if "-D" in command and command[-1] != str(self.folder / "data"):
            command = [*command, f"-clisten_addresses={_ANY}"]
        return super()._spawn(self._lab.first.inside(*command), **more)


def _answers(lab: Laboratory, probe: Callable[[], bool]) -> bool:
    return lab.in_network(probe)


class NodeServers:
    """Both servers of the laboratory."""

    def __init__(self, lab: Laboratory) -> None:
        self._lab = lab
        self.kafka, self.postgres = NodeKafka(lab), NodePostgres(lab)

    @property
    def dsn(self) -> str:
        return self.postgres.dsn

    def start(self) -> None:
        self.kafka.start()
        self.postgres.start()

    def create_schema(self, name: str) -> None:
        """Create the schema that serves as the database of a scenario."""

        def create() -> None:
            address = self.postgres.addresses(self.postgres.ports)
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA {name}".encode())

        self._lab.in_network(create)

    def names(self, space: str) -> list[objects.Object]:
        """Return Services by which a namespace finds both servers."""
        return [
            each
            for name, port in objects.PORTS.items()
            for each in objects.beside(space, name, ADDRESS, port)
        ]

    def stop(self) -> None:
        self.kafka.stop()
        self.postgres.stop()
