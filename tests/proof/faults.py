"""The faults of a scenario: what happens to a host from one moment to another.

A step names hosts by patterns, several with a blank between them: ``kafka*``, ``worker1 gateway1``, ``rest`` for all
hosts that its other column does not name, or a role of the cluster, such as ``leader``, which is looked up when the
step begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from typing import Any, NamedTuple, Protocol

from proof.hosts import Host
from proof.processes import HostProcess


class Step(NamedTuple):
    """One row of the table of a scenario.

    Attributes:
        host: The hosts to which it happens.
        fault: A name in ``FAULTS``.
        begin: Seconds after the start of the table.
        end: Seconds after the start of the table at which it is over.
        value: What the fault needs: other hosts, a number, a subscription.
    """

    host: str
    fault: str
    begin: float
    end: float
    value: str = ""

    def __str__(self) -> str:
        what = f"{self.fault} {self.value}".rstrip()
        return f"{self.host}: {what}, from {self.begin:g} s to {self.end:g} s"


class Lab(Protocol):
    """What faults need of a running laboratory."""

    def host(self, name: str) -> Host: ...
    def names(self) -> Sequence[str]: ...
    def process(self, name: str) -> HostProcess: ...
    def promote(self) -> None: ...
    def tell_target(self, **told: Any) -> None: ...
    def call(self, verb: str, subscription: str) -> None: ...


class Fault(NamedTuple):
    """How a fault begins and ends, for the hosts and the value of its step."""

    begin: Callable[[Lab, Sequence[str], str], None]
    end: Callable[[Lab, Sequence[str], str], None]


def named(pattern: str, every: Sequence[str], besides: Sequence[str] = ()) -> list[str]:
    """Return the hosts that a column of a step names. ``rest`` is all hosts that are not in ``besides``."""
    if pattern == "rest":
        return [each for each in every if each not in besides]
    words = pattern.split()
    found = [each for word in words for each in every if fnmatch(each, word)]
    if not found:
        raise ValueError(f"no host is named {pattern}")
    return list(dict.fromkeys(found))


def _one_way(lab: Lab, hosts: Sequence[str], others: Sequence[str], verb: str) -> None:
    """Cut (``drop``) or mend (``hear``) what ``others`` send to ``hosts``."""
    for name in hosts:
        getattr(lab.host(name), verb)(*(each for each in others if each != name))


def _deaf(verb: str) -> Callable[[Lab, Sequence[str], str], None]:
    return lambda lab, hosts, value: _one_way(lab, hosts, named(value, lab.names(), hosts), verb)


def _mute(verb: str) -> Callable[[Lab, Sequence[str], str], None]:
    return lambda lab, hosts, value: _one_way(lab, named(value, lab.names(), hosts), hosts, verb)


def _cut(verb: str) -> Callable[[Lab, Sequence[str], str], None]:
    def both(lab: Lab, hosts: Sequence[str], value: str) -> None:
        others = named(value, lab.names(), hosts)
        _one_way(lab, hosts, others, verb)
        _one_way(lab, others, hosts, verb)

    return both


def _lossy(share: Callable[[str], int]) -> Callable[[Lab, Sequence[str], str], None]:
    """Lose packets in both directions. The value has the other host and the thousandths, such as ``target 50``."""

    def lose(lab: Lab, hosts: Sequence[str], value: str) -> None:
        other, thousandths = value.split()
        for name in hosts:
            lab.host(name).lose(share(thousandths), other)
            lab.host(other).lose(share(thousandths), name)

    return lose


def _limited(kilobits: Callable[[str], int]) -> Callable[[Lab, Sequence[str], str], None]:
    def limit(lab: Lab, hosts: Sequence[str], value: str) -> None:
        for name in hosts:
            lab.host(name).limit(kilobits(value))

    return limit


def _each(act: Callable[[HostProcess], object]) -> Callable[[Lab, Sequence[str], str], None]:
    def apply(lab: Lab, hosts: Sequence[str], _: str) -> None:
        for name in hosts:
            act(lab.process(name))

    return apply


def _hosts(act: Callable[[Host], object]) -> Callable[[Lab, Sequence[str], str], None]:
    def apply(lab: Lab, hosts: Sequence[str], _: str) -> None:
        for name in hosts:
            act(lab.host(name))

    return apply


def _again(process: HostProcess) -> None:
    """Start a process again that was told to end, without waiting until it answers."""
    if process.running:
        process.ask_to_end()
        process.wait_for_end()
    process.begin()


def _clock(seconds: Callable[[str], float]) -> Callable[[Lab, Sequence[str], str], None]:
    def shift(lab: Lab, hosts: Sequence[str], value: str) -> None:
        for name in hosts:
            lab.process(name).set_clock(seconds(value))

    return shift


def _target(mode: str | None) -> Callable[[Lab, Sequence[str], str], None]:
    """Let the target answer a subscription as the value says: ``moody refuse``. In the end it answers 204 again."""

    def tell(lab: Lab, _: Sequence[str], value: str) -> None:
        subscription, wanted = value.split()
        lab.tell_target(subscription=subscription, mode=mode or wanted)

    return tell


def _promote(lab: Lab, hosts: Sequence[str], value: str) -> None:
    """Kill the primary of the store, or cut it off, and promote its standby."""
    if value == "cut":
        _cut("drop")(lab, hosts, "rest")
    else:
        lab.process(hosts[0]).kill()
    lab.promote()


def _fence(lab: Lab, hosts: Sequence[str], value: str) -> None:
    """Make sure that the old primary never comes back as one, as an operator does."""
    lab.process(hosts[0]).kill()
    if value == "cut":
        _cut("hear")(lab, hosts, "rest")


WAYS = ("cut from", "deaf to", "mute to")
"""The faults that drop packets between the hosts and others."""
REPEAT_NOTHING = ("answers", "DNS", "milliseconds late", "clock", "subscription paused")
"""The faults because of which no guarantee allows a repeated delivery."""
FAULTS = {
    "cut from": Fault(_cut("drop"), _cut("hear")),
    "deaf to": Fault(_deaf("drop"), _deaf("hear")),
    "mute to": Fault(_mute("drop"), _mute("hear")),
    "packets lost": Fault(_lossy(int), _lossy(lambda _: 0)),
    "kilobits a second": Fault(_limited(int), _limited(lambda _: 0)),
    "paused": Fault(_each(HostProcess.pause), _each(HostProcess.resume)),
    "killed": Fault(_each(HostProcess.kill), _each(_again)),
    "restarted": Fault(_each(HostProcess.ask_to_end), _each(_again)),
    "disk full": Fault(_hosts(Host.fill), _hosts(Host.free)),
    "replaced": Fault(_promote, _fence),
    "clock": Fault(_clock(float), _clock(lambda _: 0.0)),
    "answers": Fault(_target(None), _target("answer")),
    "DNS": Fault(
        lambda lab, _, value: lab.tell_target(names=value),
        lambda lab, _, __: lab.tell_target(names="answer"),
    ),
    "milliseconds late": Fault(
        lambda lab, _, value: lab.tell_target(delay=float(value) / 1000),
        lambda lab, _, __: lab.tell_target(delay=0.0),
    ),
    "subscription paused": Fault(
        lambda lab, _, value: lab.call("pause", value),
        lambda lab, _, value: lab.call("resume", value),
    ),
}
"""The faults by their names, as a step has them.

- ``cut from``, ``deaf to``, ``mute to``: packets between the hosts and those of the value are dropped, in both
  directions, or in one.
- ``packets lost``: ``target 50`` loses 50 of 1,000 packets between the host and ``target``, in each direction.
- ``paused``, ``killed``, ``restarted``: SIGSTOP, SIGKILL, SIGTERM. In the end the process continues or starts again.
- ``disk full``: the file system of the host has no byte left.
- ``replaced``: the primary of the store is ``killed`` or ``cut`` off, and its standby promoted.
- ``clock``: the wall clock is so many seconds ahead; the end is a step back.
- ``answers``: ``moody silent`` sets what the target answers to a subscription (``proof.target``).
- ``DNS``: what the name server answers for the name of the target (``proof.names``).
- ``milliseconds late``: the relay in front of the target delays every byte, in each direction.
- ``subscription paused``: the admin listener pauses a subscription, and resumes it in the end.
"""


def isolates(
    step: Step, hosts: Sequence[str], every: Sequence[str], brokers: Sequence[str]
) -> bool:
    """Return True if the hosts of a step reach no broker meanwhile, so that they cannot become owners of a partition."""
    if step.fault == "paused":
        return True
    return step.fault in WAYS and set(brokers) <= set(named(step.value, every, hosts))
