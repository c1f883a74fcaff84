"""A cluster of Kubernetes on this machine: built once, started in seconds, ended without a trace.

::

    with laboratory() as cluster:
        cluster.kubectl("get", "nodes")

Two nodes share this machine. The first has the control plane, the names of Services (CoreDNS), and
the servers that an installation needs: Kafka and PostgreSQL run beside the pods, in its network.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import debian_packages
import go_build
import node_files
import node_programs
import own_image
from cluster import Cluster
from node import GROUPS, Node, enter_network, join, remove_groups
from node_certificates import Authority
from node_files import Place
from versions import cache

import helm_install
from kafka_install import Missing
from waiting import wait_until

_READY_WITHIN = 300.0
_RUN = "run-"
_numbers = itertools.count(1)  # of the laboratories of this process
Value = TypeVar("Value")


def check_machine() -> None:
    """Raise Missing if this machine cannot run a node."""
    if sys.platform != "linux" or os.geteuid():
        raise Missing(
            "A node needs Linux and root. Cure: run as root, or name a cluster by --context"
        )
    lacking = [each for each in ("unshare", "nsenter", "setpriv", "ip") if not shutil.which(each)]
    if lacking:
        raise Missing(
            f"{', '.join(lacking)} not on the path. Cure: apt-get install util-linux iproute2"
        )
    if not os.access(GROUPS, os.W_OK) or not any(GROUPS.iterdir()):
        raise Missing(
            f"Control groups cannot be made in {GROUPS}. Cure: run outside of a container"
        )
    if "overlay" not in Path("/proc/filesystems").read_text():
        raise Missing("The kernel has no overlay file system, which containers need")


class Laboratory:
    """The nodes of a running laboratory, and the files that they share."""

    def __init__(self, folder: Path, nodes: Sequence[Node], authority: Authority) -> None:
        self.folder, self.nodes, self.authority = folder, nodes, authority

    @property
    def first(self) -> Node:
        return self.nodes[0]

    def import_image(self, file: Path) -> None:
        """Import an image from a file into all nodes at once."""
        command = ["ctr", "--namespace", "k8s.io", "images", "import", str(file)]

        def run(node: Node) -> None:
            Cluster.run(node.within("env", *_assignments(node), *command))

        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(run, self.nodes))

    @contextmanager
    def paused(self, program: str) -> Iterator[None]:
        """Stop a program of the first node by SIGSTOP during the block: connections stay open, and nothing answers."""
        process = self._process(program)
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    def _process(self, program: str) -> int:
        """Return the number that this machine gave to a program of the first node."""
        own = str(self.first.place.folder).encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # the process has ended
            if words[1:2] == [program.encode()] and any(own in word for word in words):
                return int(folder.name)
        raise RuntimeError(f"{program} does not run on {self.first.place.name}")

    def in_network(self, work: Callable[[], Value]) -> Value:
        """Run a function in a thread whose sockets are those of the first node."""
        with ThreadPoolExecutor(
            1, initializer=enter_network, initargs=(self.first.process,)
        ) as pool:
            return pool.submit(work).result()


@contextmanager
def laboratory(count: int = 2) -> Iterator[tuple[Laboratory, Cluster]]:
    """Run a cluster during the block. Raises Missing where this machine cannot.

    Args:
        count: The number of nodes, 1 or 2.
    """
    check_machine()
    built, packages, helm = go_build.build(), debian_packages.unpacked(), helm_install.install()
    remove_leftovers()
    name = f"{os.getpid()}-{next(_numbers)}"
    folder = cache() / f"{_RUN}{name}"
    folder.mkdir()
    with ExitStack() as ends:
        ends.callback(shutil.rmtree, folder, ignore_errors=True)
        authority = _authority(folder)
        nodes = []
        for number in range(1, count + 1):
            place = Place(number, folder / f"node{number}", _group(name, number), packages)
            place.folder.mkdir()
            nodes.append(Node(place))
        networks = [node.place.pods for node in nodes]
        for node in nodes:
            ends.callback(node.stop)
            node_files.write(node.place, authority.folder, "https://10.99.0.1:6443")
            own_image.write(node.place.folder / "pause.image", "localhost/pause:1", built["pause"])
            lines = node_programs.programs(node.place, built, authority.folder, networks)
            (node.place.folder / "programs.sh").write_text(lines)
            node.start()
        for other in nodes[1:]:
            join(nodes[0], other)
        lab = Laboratory(folder, nodes, authority)
        cluster = Cluster(_clients(lab, built["node"], helm))
        wait_until(lambda: _ready(cluster, count), _logs(nodes), _READY_WITHIN, turn=0.2)
        yield lab, cluster


def _group(laboratory: str, number: int) -> str:
    """Return the name of the control group of a node."""
    return f"skybridge-{laboratory}-{number}"


def remove_leftovers() -> None:
    """Remove folders and control groups of laboratories whose process was killed."""
    for folder in cache().glob(f"{_RUN}*"):
        name = folder.name.removeprefix(_RUN)
        if not Path(f"/proc/{name.partition('-')[0]}").exists():
            for number in (1, 2):
                remove_groups(_group(name, number))
            shutil.rmtree(folder, ignore_errors=True)


def _authority(folder: Path) -> Authority:
    authority = Authority(folder / "certificates")
    names = (
        "kubernetes.default.svc",
        "localhost",
        "10.99.0.1",
        node_files.API_SERVICE,
        "127.0.0.1",
    )
    authority.issue("apiserver", "apiserver", addresses=names)
    authority.issue("admin", "admin", "system:masters")
    authority.issue("aggregator", "aggregator")
    for number in (1, 2):
        authority.issue(
            f"node{number}", f"node{number}", addresses=(f"10.99.0.{number}", f"node{number}")
        )
    return authority


def _clients(lab: Laboratory, node: Path, helm: Path) -> dict[str, list[str]]:
    """Return the commands of kubectl and Helm in the network of the first node."""
    settings = f"KUBECONFIG={lab.first.place.folder}/kubeconfig"
    environ = ("env", settings, f"HOME={lab.folder}")
    return {
        "kubectl": lab.first.inside(*environ, str(node), "kubectl"),
        "helm": lab.first.inside(*environ, str(helm)),
    }


def _ready(cluster: Cluster, count: int) -> bool:
    try:
        nodes = cluster.get("nodes")
    except RuntimeError:
        return False
    conditions = [each for node in nodes for each in node["status"].get("conditions", [])]
    ready = [each for each in conditions if each["type"] == "Ready" and each["status"] == "True"]
    return len(ready) == count


def _logs(nodes: Sequence[Node]) -> str:
    return f"a ready node; the logs are in {nodes[0].place.folder.parent}"


def _assignments(node: Node) -> list[str]:
    return [
        f"{name}={value}" for name, value in debian_packages.environ(node.place.packages).items()
    ]
