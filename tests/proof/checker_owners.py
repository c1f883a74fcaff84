"""Judge who owns a partition: two workers may both deliver from it for the lease, and no longer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, groupby
from operator import attrgetter
from typing import NamedTuple

from proof.checker_faults import Faults
from proof.checker_order import Witness
from proof.checker_tables import Tables

LATE = 1.0  # seconds that a laboratory needs to cut off a host, and to mend it
BOTH = 3  # events, one after another, that two owners deliver, in as many turns each

_ISOLATED = """
WITH other AS (SELECT fault.line AS fault, subscription, key, min(arrived.start) AS start,
    arrived.line AS line, fault.host AS host, fault.start AS begin, fault.end AS end
    FROM fault JOIN arrived ON arrived.start BETWEEN fault.start AND fault.end AND arrived.worker <> fault.host
    WHERE isolates AND key <> '' GROUP BY fault.line, subscription, key)
SELECT other.fault, other.line, arrived.line FROM other JOIN arrived
ON arrived.subscription = other.subscription AND arrived.key = other.key AND arrived.worker = other.host
    AND arrived.start > max(other.start, other.begin + :lease + :late) AND arrived.start <= other.end - :late
"""


def two_owners(tables: Tables) -> Iterator[Witness]:
    """Two workers owned one partition at once for longer than the lease.

    Witness: the two times of ownership; or the fault that isolated a worker, the first attempt of another worker at a
    key, and an attempt that the isolated worker began at the same key after its lease; or two deliveries, between which
    two workers both delivered each event of a key.
    """
    lease = tables.terms.lease
    yield from tables.rows(
        "SELECT a.line, b.line FROM owner AS a JOIN owner AS b USING (subscription, partition)"
        " WHERE a.worker < b.worker"
        " AND min(coalesce(a.end, 9e99), coalesce(b.end, 9e99)) - max(a.start, b.start) > ?",
        lease,
    )
    yield from tables.rows(_ISOLATED, lease=lease, late=LATE)
    yield from _delivered_by_both(tables)


class _Delivery(NamedTuple):
    worker: str
    start: float
    line: int


def _delivered_by_both(tables: Tables) -> Iterator[Witness]:
    """Return the first and the last delivery of each time in which two owners of a key did not know of each other.

    Both deliver each event, in turns. A partition that moves repeats the events since the last commit alone, and its old
    owner has delivered them before the new one begins. It may come back a few times.
    """
    most, endings = tables.terms.lease + tables.terms.commit, Faults(tables).endings()
    rows = tables.rows(
        "SELECT subscription, key, id, worker, start, line FROM arrived WHERE key <> '' AND done"
        " ORDER BY subscription, key, start, line"
    )
    for _, of_key in groupby(rows, key=lambda row: row[:2]):
        events: dict[str, list[_Delivery]] = {}
        for _, _, name, *delivery in of_key:
            events.setdefault(name, []).append(_Delivery(*delivery))
        workers = {each.worker for deliveries in events.values() for each in deliveries}
        for pair in combinations(sorted(workers), 2):
            for run in _runs(events.values(), set(pair)):
                yield from _too_long(run, pair, endings, most)


def _runs(
    events: Iterable[Sequence[_Delivery]], pair: set[str]
) -> Iterator[list[Sequence[_Delivery]]]:
    """Return the runs of events, in the order of their first deliveries, that both workers have delivered."""
    for both, run in groupby(events, key=lambda each: pair <= {one.worker for one in each}):
        if both and len(found := list(run)) >= BOTH:
            yield found


def _too_long(
    run: Iterable[Sequence[_Delivery]],
    pair: Sequence[str],
    endings: Mapping[str, Sequence[float]],
    most: float,
) -> Iterator[Witness]:
    """Return a witness if the two workers took turns at the run for more than ``most`` seconds.

    A worker whose process ended owned nothing from then on, so its next process is another owner.
    """
    of: dict[tuple[str, int], list[_Delivery]] = {}
    for one in sorted((one for each in run for one in each), key=attrgetter("start")):
        if one.worker in pair:
            process = bisect_right(endings.get(one.worker, ()), one.start)
            of.setdefault((one.worker, process), []).append(one)
    for first, second in combinations(of.values(), 2):
        if first[0].worker != second[0].worker:
            begin = max(first[0], second[0], key=attrgetter("start"))
            end = min(first[-1], second[-1], key=attrgetter("start"))
            if end.start - begin.start > most and _turns(first, second) >= 2 * BOTH:
                yield (begin.line, end.line)


def _turns(first: Iterable[_Delivery], second: Iterable[_Delivery]) -> int:
    """Return how many turns two owners took: deliveries of one of them without one of the other in between."""
    both = sorted([*first, *second], key=attrgetter("start"))
    return sum(1 for _ in groupby(both, key=attrgetter("worker")))
