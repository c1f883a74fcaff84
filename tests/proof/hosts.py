"""Hosts for proofs: network namespaces of this machine, joined by a bridge. It needs Linux, root and ``nft``.

Each host has one address and knows all others by name, in its own ``/etc/hosts``. The machine itself has an
address on the bridge, so the runner reaches every host, whatever is cut between the hosts.

::

    with Network(["kafka1", "kafka2", "load"]) as network:
        network["kafka1"].spawn(["java", ...], log=folder / "kafka1.log")
        network["load"].drop("kafka1")      # load does not hear kafka1; kafka1 still hears load
        network["load"].hear("kafka1")

All names of a network begin with ``sky`` and its number. ``Network`` first removes the networks of runs whose
process has ended. It ends processes by their ids, which the kernel lists for each namespace.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from kafka_install import Missing
from server_process import die_with_parent
from waiting import wait_until

NETWORKS = range(1, 200)
FILLER = "filler"
STATES = Path("/run/skybridge-proof")
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

    def disk(self, megabytes: int) -> Path:
        """Return a new folder of this host, a file system in memory that is full at this size."""
        self._disk.mkdir(parents=True)
        run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(self._disk))
        return self._disk

    @property
    def _disk(self) -> Path:
        return _disks(self._network.number) / self.name

    def fill(self) -> None:
        """Fill the file system of ``disk`` to its last byte, until ``free``."""
        with contextlib.suppress(OSError), (self._disk / FILLER).open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))

    def free(self) -> None:
        """End ``fill``."""
        (self._disk / FILLER).unlink(missing_ok=True)

    def lose(self, thousandths: int, other: str) -> None:
        """Drop this share of the packets that ``other`` sends to this host, at random; 0 ends it."""
        self.run("nft", "flush", "chain", "inet", "proof", "loss")
        if thousandths:
            match = f"ip saddr {self._network[other].address} numgen random mod 1000 < {thousandths} drop"
            self.run("nft", "add", "rule", "inet", "proof", "loss", *match.split())

    def limit(self, kilobits: int) -> None:
        """Limit what this host sends to this rate per second; 0 ends the limit."""
        if kilobits:
            shape = ("tbf", "rate", f"{kilobits}kbit", "burst", "32kb", "latency", "400ms")
            run("tc", "-n", self.namespace, "qdisc", "replace", "dev", "eth0", "root", *shape)
        else:
            run("tc", "-n", self.namespace, "qdisc", "delete", "dev", "eth0", "root")


class Network:
    """Hosts on one bridge, as a context manager. ``number`` makes its names and addresses unique on the machine."""

    def __init__(self, names: Sequence[str], resolver: str | None = None) -> None:
        """Prepare a network without making it. ``resolver`` is the host that all others ask for names by DNS."""
        self._names = names
        self._resolver = resolver
        self._hosts: dict[str, Host] = {}
        self.number = 0

    @property
    def bridge(self) -> str:
        return f"sky{self.number}"

    @property
    def address(self) -> str:
        """Return the address of the machine on the bridge."""
        return f"10.213.{self.number}.254"

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts.values())

    def others(self, *names: str) -> list[str]:
        """Return the names of all hosts but these."""
        return [each for each in self._hosts if each not in names]

    def __enter__(self) -> Self:
        check_machine()
        remove_leftovers()
        self._take_number()
        self._hosts = {
            name: Host(self, name, number) for number, name in enumerate(self._names, start=1)
        }
        try:
            run("ip", "address", "add", f"{self.address}/24", "dev", self.bridge)
            run("ip", "link", "set", self.bridge, "up")
            for host in self:
                self._write_names(host)
                host.make()
        except BaseException:
            remove(self.number)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        remove(self.number)

    def _take_number(self) -> None:
        """Take the first number whose bridge can be made: two runs cannot make the same one."""
        STATES.mkdir(exist_ok=True)
        for self.number in NETWORKS:
            made = ["ip", "link", "add", self.bridge, "type", "bridge"]
            if subprocess.run(made, capture_output=True, check=False).returncode == 0:
                (STATES / str(self.number)).write_text(_identity(os.getpid()))
                return
        raise RuntimeError("there is no free number for a network")

    def _write_names(self, host: Host) -> None:
        folder = _names_folder(host.namespace)
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["127.0.0.1 localhost", *(f"{each.address} {each.name}" for each in self)]
        (folder / "hosts").write_text("".join(f"{line}\n" for line in lines))
        if self._resolver is not None:
            asked = f"nameserver {self[self._resolver].address}\n"
            (folder / "resolv.conf").write_text(asked)


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


def remove_leftovers() -> None:
    """Remove the networks of runs whose process has ended, even if it was killed."""
    for state in STATES.glob("[0-9]*") if STATES.is_dir() else ():
        owner = state.read_text()
        if owner and _identity(int(owner.split()[0])) != owner:
            remove(int(state.name))


def remove(number: int) -> None:
    """End all processes of a network, and remove its namespaces, its bridge and its names."""
    name = re.compile(rf"sky{number}-\S+")
    for namespace in name.findall(run("ip", "netns", "list")):
        wait_until(lambda namespace=namespace: not _killed(namespace), f"{namespace} to be empty")
        run("ip", "netns", "delete", namespace)
        shutil.rmtree(_names_folder(namespace), ignore_errors=True)
    for link in re.findall(rf"^(sky{number}(?:v\d+)?)\b", run("ip", "-br", "link"), re.MULTILINE):
        with contextlib.suppress(RuntimeError):  # the kernel removes those of a namespace later, by itself
            run("ip", "link", "delete", link)
    disks = _disks(number)
    for folder in disks.glob("*"):
        run("umount", "--lazy", str(folder))
    shutil.rmtree(disks, ignore_errors=True)
    (STATES / str(number)).unlink(missing_ok=True)


def _killed(namespace: str) -> list[str]:
    """Kill the processes of a namespace and return their ids. Ended processes do not count."""
    found = run("ip", "netns", "pids", namespace).split()
    for each in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(each), signal.SIGKILL)
    return found


def _disks(number: int) -> Path:
    return STATES / f"disks-{number}"


def _names_folder(namespace: str) -> Path:
    return Path("/etc/netns") / namespace


def _identity(pid: int) -> str:
    """Return the id of a process with the time of its start, because ids are used again; "" if there is none."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return ""
    return f"{pid} {after_name.split()[19]}"
