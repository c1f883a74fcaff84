"""A place for one scenario: a namespace with the pod of the load, and the servers it names.

``Place`` hides whether the cluster is the laboratory of this machine or that of a context.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import objects
from cluster import Cluster
from laboratory import Laboratory
from node_servers import ADDRESS, NodeKafka, NodePostgres

from waiting import wait_until

_numbers = itertools.count(1)


class Site:
    """A cluster with what all scenarios share.

    Attributes:
        cluster: Runs kubectl and Helm.
        lab: The laboratory of this machine. None: the cluster of a context.
        image: The image of the service.
        earlier: Returns the image of an earlier commit, which the first call makes.
        kafka: The Kafka beside the laboratory, once it runs.
    """

    def __init__(
        self, cluster: Cluster, lab: Laboratory | None, image: str, earlier: Callable[[], str]
    ) -> None:
        self.cluster, self.lab, self.image, self.earlier = cluster, lab, image, earlier
        self.kafka: NodeKafka | None = None
        self.postgres: NodePostgres | None = None
        if lab is not None:
            cluster.apply(objects.storage_class())

    @property
    def pull(self) -> str:
        """Return the pull policy: the laboratory has no registry."""
        return "Never" if self.lab is not None else "IfNotPresent"

    @contextmanager
    def space(self, *, volumes: int = 0) -> Iterator[Space]:
        """Yield a namespace with the pod of the load, and delete it at the end."""
        number = next(_numbers)
        space = Space(self, f"skybridge-lab-{number}")
        cluster = self.cluster
        cluster.apply(objects.namespace(space.name))
        wait_until(lambda: space.get("serviceaccounts"), "a service account", turn=0.1)
        try:
            if self.lab is not None:
                space.add_volumes(volumes)
            cluster.apply(
                objects.secret(space.name, "skybridge-admin", token="token-of-the-laboratory"),
                *objects.load(space.name, self.image, self.pull),
            )
            cluster.kubectl(
                "wait", "-n", space.name, "--for=condition=Ready", "pod/load", "--timeout=300s"
            )
            yield space
        finally:
            cluster.kubectl("delete", "namespace", space.name, "--timeout=300s")
            space.remove_volumes()

    def start_servers(self) -> None:
        """Start Kafka and PostgreSQL beside the laboratory, unless they run."""
        if self.lab is not None and self.kafka is None:
            self.kafka, self.postgres = NodeKafka(self.lab), NodePostgres(self.lab)
            self.kafka.start()
            self.postgres.start()

    def stop_servers(self) -> None:
        for server in (self.kafka, self.postgres):
            if server is not None:
                server.stop()


class Space:
    """A namespace of one scenario."""

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name = site, name
        self._volumes: list[str] = []

    def describe(self) -> str:
        """Return the state of all pods, the events, and the ends of the logs, for a failed scenario."""
        parts = [
            ("get", "pods", "--output", "wide"),
            ("get", "events", "--sort-by", ".lastTimestamp"),
            *(("logs", pod["metadata"]["name"], "--tail=40") for pod in self.get("pods")),
        ]
        return "\n".join(self._said(*words) for words in parts)

    def _said(self, *words: str) -> str:
        try:
            return f"{' '.join(words)}:\n{self.kubectl(*words)}"
        except RuntimeError as error:
            return str(error)

    def kubectl(self, *words: str, stdin: str = "") -> str:
        return self.site.cluster.kubectl("-n", self.name, *words, stdin=stdin)

    def get(self, kind: str, *words: str) -> list[dict[str, Any]]:
        return self.site.cluster.get(kind, "-n", self.name, *words)

    def add_servers(self) -> None:
        """Make the names ``kafka`` and ``postgresql``, and the Secret with the DSN of a database of
        its own.
        """
        self.site.start_servers()
        postgres = self.site.postgres
        assert postgres is not None, "scenarios in topology split need the laboratory"
        dsn = f"{postgres.dsn}?options=-csearch_path%3D{self._schema()}"
        self.site.cluster.apply(
            *objects.beside(self.name, "kafka", ADDRESS, objects.PORTS["kafka"]),
            *objects.beside(self.name, "postgresql", ADDRESS, objects.PORTS["postgresql"]),
            objects.secret(self.name, "shop-postgresql", dsn=dsn),
        )

    def _schema(self) -> str:
        """Create the schema that serves as the database of this scenario."""
        import psycopg

        lab, postgres = self.site.lab, self.site.postgres
        assert lab is not None
        assert postgres is not None
        schema = self.name.replace("-", "_")

        def create() -> None:
            with psycopg.connect(postgres.addresses(postgres.ports), autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA {schema}")

        lab.in_network(create)
        return schema

    def add_volumes(self, count: int) -> None:
        """Make volumes on the first node."""
        lab = self.site.lab
        assert lab is not None
        place = lab.first.place
        for number in range(1, count + 1):
            name = f"{self.name}-{number}"
            path = place.folder / "volumes" / name
            path.mkdir()
            path.chmod(0o777)
            self.site.cluster.apply(objects.volume(name, place.name, path))
            self._volumes.append(name)

    def remove_volumes(self) -> None:
        for name in self._volumes:
            self.site.cluster.kubectl("delete", "persistentvolume", name, "--wait=false")
            assert self.site.lab is not None
            shutil.rmtree(self.site.lab.first.place.folder / "volumes" / name, ignore_errors=True)
