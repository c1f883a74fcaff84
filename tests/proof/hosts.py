"""A host for proofs: a network namespace of this machine with one address, whose packets can be dropped.

``proof.network`` makes hosts. It needs Linux, root and ``nft``.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_install import Missing
from server_process import die_with_parent

if TYPE_CHECKING:
    from proof.network import Network

STATES = Path("/run/skybridge-proof")
"""The folder of what a run leaves on the machine until it ends."""
FILLER = "filler"
_PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables", "setpriv": "util-linux"}
_RULES = """
table inet proof {
    set cut { type ipv4_addr; }
    chain input {
        type filter hook input priority 0;
        ip saddr @cut drop
        jump loss
    }
    chain loss { }
}
"""


class Host:
    """A host of a network.

    Attributes:
        name: The name by which other hosts know it.
        address: Its only address, apart from loopback.
        namespace: The name of its network namespace.
    """

    def __init__(self, network: Network, name: str, number: int) -> None:
        self.name = name
        self.address = f"10.213.{network.number}.{number}"
        self.namespace = f"sky{network.number}-{name}"
        self._outside = f"sky{network.number}v{number}"
        self._network = network
        self._dropped: Counter[str] = Counter()
        self._lost: dict[str, int] = {}
        self._limited = False

    def make(self) -> None:
        """Make the namespace with one interface, ``eth0``, on the bridge."""
        run("ip", "netns", "add", self.namespace)
        with contextlib.suppress(RuntimeError):  # one that a process of an earlier network has kept
            run("ip", "link", "delete", self._outside)
        ends = ("name", self._outside, "type", "veth", "peer", "name", "eth0")
        run("ip", "link", "add", *ends, "netns", self.namespace)
        run("ip", "link", "set", self._outside, "master", self._network.bridge, "up")
        self.ip("address", "add", f"{self.address}/24", "dev", "eth0")
        for interface in ("lo", "eth0"):
            self.ip("link", "set", interface, "up")
        self.run("nft", "-f", "-", stdin=_RULES)

    def ip(self, *words: str) -> str:
        return run("ip", "-n", self.namespace, *words)

    def command(self, words: Sequence[str], user: str | None = None) -> list[str]:
        """Return the command that runs ``words`` on this host, as ``user`` if one is named."""
        return ["ip", "netns", "exec", self.namespace, *_as(user), *words]

    def run(self, *words: str, stdin: str = "", user: str | None = None) -> str:
        """Run a command on this host to its end and return its output. Raises RuntimeError if it fails."""
        return run(*self.command(words, user), stdin=stdin)

    def spawn(
        self,
        words: Sequence[str],
        *,
        log: Path,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        user: str | None = None,
        **more: Any,
    ) -> subprocess.Popen[bytes]:
        """Start a process on this host; its id is that of the program itself.

        Args:
            words: The command.
            log: The file of its output and errors.
            cwd: Its folder; default: that of the log.
            environ: Additions to the environment.
            user: The user to run as; default: root.
            more: Arguments of ``subprocess.Popen``.
        """
        with log.open("ab") as file:
            return subprocess.Popen(
                self.command(words, user),
                cwd=cwd or log.parent,
                env={**os.environ, **(environ or {})},
                **{
                    "stdin": subprocess.DEVNULL,
                    "stdout": file,
                    "stderr": file,
                    "start_new_session": True,  # a Ctrl-C reaches the runner alone, which ends the process
                    "preexec_fn": die_with_parent(),
                    **more,
                },
            )

    def pids(self) -> list[int]:
        """Return the ids of all processes of this host."""
        return [int(each) for each in run("ip", "netns", "pids", self.namespace).split()]

    def drop(self, *others: str) -> None:
        """Drop all packets that these hosts send to this host. The other direction stays open."""
        self._cut("add", [each for each in others if not self._dropped[each]])
        self._dropped.update(others)

    def hear(self, *others: str) -> None:
        """End one ``drop`` of each of these hosts. They are heard when as many were ended as begun."""
        self._dropped.subtract(others)
        self._cut("delete", [each for each in others if not self._dropped[each]])

    def _cut(self, verb: str, others: Sequence[str]) -> None:
        if others:
            addresses = ", ".join(self._network[each].address for each in others)
            self.run("nft", verb, "element", "inet", "proof", "cut", f"{{ {addresses} }}")

    def mend(self) -> None:
        """End every cut, loss and limit of this host, and free its disk."""
        self._dropped.clear()
        self.run("nft", "flush", "set", "inet", "proof", "cut")
        self._lost.clear()
        self._write_losses()
        self.limit(0)
        self.free()

    def disk(self, megabytes: int) -> Path:
        """Return a new folder of this host, a file system in memory that is full at this size."""
        self._disk.mkdir(parents=True)
        run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(self._disk))
        return self._disk

    @property
    def _disk(self) -> Path:
        return disks_of(self._network.number) / self.name

    def fill(self) -> None:
        """Fill the file system of ``disk`` to its last byte, until ``free``."""
        with contextlib.suppress(OSError), (self._disk / FILLER).open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))

    def free(self) -> None:
        """End ``fill``."""
        (self._disk / FILLER).unlink(missing_ok=True)

    def lose(self, thousandths: int, other: str) -> None:
        """Drop this share of the packets that ``other`` sends to this host, at random; 0 ends it.

        The shares of other senders stay as they are.
        """
        self._lost.pop(other, None)
        if thousandths:
            self._lost[other] = thousandths
        self._write_losses()

    def _write_losses(self) -> None:
        """Write one rule for each sender whose packets are lost."""
        rules = (
            f"add rule inet proof loss ip saddr {self._network[other].address}"
            f" numgen random mod 1000 < {share} drop\n"
            for other, share in self._lost.items()
        )
        self.run("nft", "-f", "-", stdin="flush chain inet proof loss\n" + "".join(rules))

    def limit(self, kilobits: int) -> None:
        """Limit what this host sends to this rate per second; 0 ends the limit."""
        if kilobits:
            shape = ("tbf", "rate", f"{kilobits}kbit", "burst", "32kb", "latency", "400ms")
            run("tc", "-n", self.namespace, "qdisc", "replace", "dev", "eth0", "root", *shape)
        elif self._limited:
            run("tc", "-n", self.namespace, "qdisc", "delete", "dev", "eth0", "root")
        self._limited = bool(kilobits)


def _as(user: str | None) -> list[str]:
    if user is None:
        return []
    ids = pwd.getpwnam(user)
    return ["setpriv", f"--reuid={ids.pw_uid}", f"--regid={ids.pw_gid}", "--init-groups"]


def check_machine() -> None:
    """Raise ``Missing`` if this machine cannot make hosts."""
    if os.getuid() != 0 or not Path("/proc/self/ns/net").exists():
        raise Missing("Network namespaces need Linux and root.")
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            raise Missing(
                f"{program} is not on the path. Cure on Debian: apt-get install {package}"
            )


def run(*words: str, stdin: str = "") -> str:
    """Run a command to its end and return its output. Raises RuntimeError if it fails."""
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed: {done.stderr.strip()}")
    return done.stdout


def disks_of(number: int) -> Path:
    """Return the folder of the file systems of a network."""
    return STATES / f"disks-{number}"
