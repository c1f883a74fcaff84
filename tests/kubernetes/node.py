"""A Kubernetes node of this machine, in namespaces of its own.

One SIGKILL of the first process ends all programs of the node, with their mounts and network. What
remains is a folder and control groups; ``stop`` removes them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import debian_packages
from node_files import Place

from waiting import wait_until

GROUPS = Path("/sys/fs/cgroup")
_FIRST = Path(__file__).with_name("node_first.sh")
_OWN = ("--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child")
_OF_CONTAINERD = "k8s.io"
"""A control group that containerd makes beside those of the node, on some kernels."""


class Node:
    """A node. ``place`` names its folder and addresses, which exist before ``start``."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._outside: subprocess.Popen[bytes] | None = None
        self._first = 0
        self._found = {each for each in _groups(_OF_CONTAINERD) if each.exists()}

    def start(self) -> None:
        """Start the first process, which starts the programs that ``programs.sh`` names."""
        place = self.place
        for group in _groups(place.cgroup):
            group.mkdir()
            _allow_all(group)
        words = [
            "bash",
            str(_FIRST),
            str(place.folder),
            str(place.number),
            place.address,
            place.pods,
        ]
        with (place.folder / "first.log").open("wb") as log:
            self._outside = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", *_OWN, *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **debian_packages.environ(place.packages)},
            )  # fmt: skip
        self._first = self._child()
        wait_until((place.folder / "up").exists, f"{place.name}: {self.said('first')}", 60)

    @property
    def process(self) -> int:
        """Return the number of the first process."""
        return self._first

    def inside(self, *words: str) -> list[str]:
        """Return the command that runs ``words`` in the network of the node, and in no other part
        of it.
        """
        return ["nsenter", f"--net=/proc/{self._first}/ns/net", *words]

    def within(self, *words: str) -> list[str]:
        """Return the command that runs ``words`` as a program of the node."""
        flags = ("-m", "-n", "-i", "-u", "-p")
        return ["nsenter", "-t", str(self._first), *flags, *words]

    def said(self, program: str, most: int = 2000) -> str:
        """Return the end of the log of a program."""
        log = self.place.folder / f"{program}.log"
        return log.read_text(errors="replace")[-most:] if log.exists() else ""

    def stop(self) -> None:
        """End everything of the node, and remove its folder and control groups."""
        if self._outside is not None:
            if self._first:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._first, signal.SIGKILL)
            self._outside.kill()
            self._outside.wait()
        remove_groups(self.place.cgroup)
        for group in {*_groups(_OF_CONTAINERD)} - self._found:
            _remove(group)
        shutil.rmtree(self.place.folder, ignore_errors=True)

    def _child(self) -> int:
        outside = self._outside
        assert outside is not None
        children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
        wait_until(
            lambda: outside.poll() is not None or children.read_text().split(), "unshare", 60
        )
        if outside.poll() is not None:
            raise RuntimeError(f"The node did not start: {self.said('first')}")
        return int(children.read_text().split()[0])


def join(first: Node, second: Node) -> None:
    """Connect the networks of two nodes by a pair of interfaces, and tell each the other's pods."""
    near, far = f"to-{second.place.name}", f"to-{first.place.name}"
    ends = ("type", "veth", "peer", "name", far, "netns", str(second.process))
    _run(first.inside("ip", "link", "add", near, *ends))
    for node, link, other in ((first, near, second), (second, far, first)):
        _run(node.inside("ip", "link", "set", link, "master", "nodes", "up"))
        _run(node.inside("ip", "route", "add", other.place.pods, "via", other.place.address))


def _groups(name: str) -> Sequence[Path]:
    """Return the folders of a control group, one for each controller; one in all with version 2."""
    if (GROUPS / "cgroup.controllers").exists():
        return [GROUPS / name]
    controllers = (
        "cpu",
        "cpuacct",
        "cpuset",
        "memory",
        "pids",
        "systemd",
        "blkio",
        "devices",
        "freezer",
    )
    places = (
        GROUPS / each for each in (*controllers, "hugetlb", "net_cls", "perf_event", "unified")
    )
    return [each / name for each in places if each.is_dir() and not each.is_symlink()]


def _allow_all(group: Path) -> None:
    """Give a new group of ``cpuset`` the processors and memory of the one above; else it has none."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (group / file).exists() and (above := group.parent / file).exists():
            (group / file).write_text(above.read_text())


def remove_groups(name: str) -> None:
    """Remove the control groups of this name, with the groups below them."""
    for group in _groups(name):
        _remove(group)


def _remove(group: Path) -> None:
    """Remove a control group with the groups below it, once their processes have ended."""
    deadline = time.monotonic() + 30
    while group.exists():
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
        if time.monotonic() > deadline:
            print(f"{group} could not be removed. Cure: rmdir it")
            return
        time.sleep(0.02)


def enter_network(process: int) -> None:
    """Move this thread into the network of a process, for the sockets that it makes from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{process}/ns/net").open() as namespace:
        if libc.setns(namespace.fileno(), 0x40000000):  # CLONE_NEWNET
            raise OSError(ctypes.get_errno(), "setns")


def _run(words: Sequence[str]) -> None:
    subprocess.run(words, check=True, capture_output=True)
