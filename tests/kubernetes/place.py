"""A place for one scenario: a namespace with the pod of the load, and the servers it names.

``Place`` hides whether the cluster is the laboratory of this machine or that of a context.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import objects
from cluster import Cluster
from cluster_servers import ClusterServers
from laboratory import Laboratory
from node_servers import NodeServers

from waiting import wait_until

_numbers = itertools.count(1)


class Site:
    """A cluster with what all scenarios share.

    Attributes:
        cluster: Runs kubectl and Helm.
        lab: The laboratory of this machine. None: the cluster of a context.
        image: The image of the service.
        earlier: Returns the image of an earlier commit, which the first call makes.
        servers: Kafka and PostgreSQL, once they run.
    """

    def __init__(
        self, cluster: Cluster, lab: Laboratory | None, image: str, earlier: Callable[[], str]
    ) -> None:
        self.cluster, self.lab, self.image, self.earlier = cluster, lab, image, earlier
        self.servers: NodeServers | ClusterServers | None = None
        if lab is not None:
            cluster.apply(objects.storage_class())

    @property
    def pull(self) -> str:
        """Return the pull policy: the laboratory has no registry."""
        return "Never" if self.lab is not None else "IfNotPresent"

    @contextmanager
    def space(self, *, volumes: int = 0) -> Iterator[Space]:
        """Yield a namespace with the pod of the load, and delete it at the end."""
        space = Space(self, f"skybridge-lab-{os.getpid()}-{next(_numbers)}")
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

    def running_servers(self) -> NodeServers | ClusterServers:
        """Return Kafka and PostgreSQL, which the first call starts."""
        if self.servers is None:
            self.servers = NodeServers(self.lab) if self.lab else ClusterServers(self.cluster)
            self.servers.start()
        return self.servers

    def stop_servers(self) -> None:
        if self.servers is not None:
            self.servers.stop()


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
        servers = self.site.running_servers()
        servers.create_schema(self._schema)
        self.site.cluster.apply(
            *servers.names(self.name), objects.secret(self.name, "shop-postgresql", dsn=self.dsn())
        )

    def dsn(self) -> str:
        """Return the DSN of the database of this scenario."""
        return f"{self.site.running_servers().dsn}?options=-csearch_path%3D{self._schema}"

    @property
    def _schema(self) -> str:
        return self.name.replace("-", "_")

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
