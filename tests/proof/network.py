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
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from kafka_install import one_at_a_time
from proof.hosts import STATES, Host, check_machine, disks_of, run
from waiting import wait_until

NETWORKS = range(1, 200)


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
        STATES.mkdir(exist_ok=True)
        with one_at_a_time("networks", STATES):
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
        # The kernel removes those of a namespace too, some time later.
        with contextlib.suppress(RuntimeError):
            run("ip", "link", "delete", link)
    disks = disks_of(number)
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


def _names_folder(namespace: str) -> Path:
    return Path("/etc/netns") / namespace


def _identity(pid: int) -> str:
    """Return the id of a process with the time of its start, because ids are used again; "" if there is none."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return ""
    return f"{pid} {after_name.split()[19]}"
