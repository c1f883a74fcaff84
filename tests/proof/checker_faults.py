"""The times in which the faults of a run excuse what no guarantee allows otherwise."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from proof.checker_tables import Tables

ENDINGS = ("killed", "kill", "restarted")
"""The faults that end a process. Of those at a host of the service, nothing but a new process goes back in its log."""


class Windows:
    """Spans of time. Those that meet are one."""

    def __init__(self, spans: Iterable[tuple[float, float]]) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def meets(self, start: float, end: float) -> bool:
        """Return True if a window has a moment between ``start`` and ``end``."""
        number = bisect_right(self._starts, end) - 1
        return number >= 0 and self._ends[number] >= start

    def end_of(self, moment: float) -> float:
        """Return the end of the window that has this moment, or the moment if there is none."""
        number = bisect_right(self._starts, moment) - 1
        return max(moment, self._ends[number]) if number >= 0 else moment


class _Fault(NamedTuple):
    name: str
    host: str
    start: float
    end: float
    repeats: bool


class Faults:
    """The faults of a run, with the roles that the history shows of their hosts.

    A packet that was sent in a fault may be repeated for as long after the fault as the fault has lasted. The delay of the
    next repetition doubles each time (RFC 6298 5.5).
    """

    def __init__(self, tables: Tables) -> None:
        self._terms = tables.terms
        self._all = [
            _Fault(*row) for row in tables.rows("SELECT name, host, start, end, repeats FROM fault")
        ]
        self._workers = {name for (name,) in tables.rows("SELECT DISTINCT worker FROM arrived")}
        self._gateways = {name for (name,) in tables.rows("SELECT DISTINCT gateway FROM sent")}
        self._owners = list(tables.rows("SELECT start, end FROM owner"))
        self._pauses = list(
            tables.rows(
                "SELECT pause.start, coalesce((SELECT min(resume.end) FROM call AS resume"
                " WHERE resume.verb = 'resume' AND resume.subscription = pause.subscription"
                " AND resume.start >= pause.start), pause.end) FROM call AS pause WHERE pause.verb = 'pause'"
            )
        )
        self._by_worker: dict[str, Windows] = {}
        lease = tables.terms.lease
        changes = [each for span in self._owners for each in span if each is not None]
        self.moves = Windows(
            [self._long(each) for each in self._all if self._may_repeat(each)]
            + [(each - lease, each + lease) for each in changes]
        )

    def disturb(self, worker: str) -> Windows:
        """Return when a worker may lose its connections, and when its log may go back.

        A process that is killed or restarted ends its own run alone. Committed positions stay as they are.
        """
        if worker not in self._by_worker:
            self._by_worker[worker] = Windows(self._spans_of(worker))
        return self._by_worker[worker]

    def _spans_of(self, worker: str) -> Iterable[tuple[float, float]]:
        for each in self._all:
            if each.name in ENDINGS and self._is_worker(each.host):
                if each.host == worker:
                    yield each.start, each.end
            elif self._may_repeat(each):
                yield self._long(each)

    def _long(self, fault: _Fault) -> tuple[float, float]:
        return fault.start, fault.end + self._terms.settle + (fault.end - fault.start)

    def _may_repeat(self, fault: _Fault) -> bool:
        """Return whether a fault may repeat deliveries. One of a gateway lets its senders repeat requests alone."""
        return fault.repeats and not self._is_gateway(fault.host)

    def _is_worker(self, host: str) -> bool:
        """Return whether a host has a worker. One that was killed early has delivered nothing."""
        return host in self._workers or host.startswith("worker")

    def _is_gateway(self, host: str) -> bool:
        """Return whether a host has a gateway and no worker."""
        return not self._is_worker(host) and (host in self._gateways or host.startswith("gateway"))

    def endings(self) -> Mapping[str, Sequence[float]]:
        """Return the times at which a process of each host ended, in their order."""
        found: dict[str, list[float]] = {}
        for each in sorted(self._all, key=attrgetter("start")):
            if each.name in ENDINGS:
                found.setdefault(each.host, []).append(each.start)
        return found

    def repeating(self) -> list[tuple[float, float]]:
        """Return the spans of all faults that may repeat a delivery, and the changes of owners."""
        spans = [(each.start, each.end) for each in self._all if self._may_repeat(each)]
        return spans + [(start, start) for start, _ in self._owners]

    def storing_twice(self) -> list[tuple[float, float]]:
        """Return the spans of all faults in which a spool may store events twice, and the changes of owners."""
        spans = [(each.start, each.end) for each in self._all if each.repeats]
        return spans + [(start, start) for start, _ in self._owners]

    def delaying(self) -> Windows:
        """Return when a repeated delivery may be late: in all faults, pauses and changes of owners, and after them."""
        late = self._terms.settle + self._terms.again
        spans = [(each.start, each.end) for each in self._all]
        spans += [*self._pauses, *((start, start) for start, _ in self._owners)]
        return Windows((start, end + late) for start, end in spans)
