"""Judge who owns a partition: two workers may both deliver from it for the lease, and no longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from proof.checker_order import Witness
from proof.checker_tables import Tables

TURN = 2.0  # seconds within which the other one of two owners follows


def two_owners(tables: Tables) -> Iterator[Witness]:
    """Two workers owned one partition at once for longer than the lease.

    Witness: the two times of ownership; or the fault that isolated a worker, the first attempt of another worker at a
    key, and an attempt that the isolated worker began at the same key after the lease; or two attempts at a key, between
    which two workers took turns at it.
    """
    lease = tables.terms.lease
    yield from tables.rows(
        "SELECT a.line, b.line FROM owner AS a JOIN owner AS b USING (subscription, partition)"
        " WHERE a.worker < b.worker"
        " AND min(coalesce(a.end, 9e99), coalesce(b.end, 9e99)) - max(a.start, b.start) > ?",
        lease,
    )
    yield from tables.rows(
        "WITH other AS (SELECT fault.line AS fault, subscription, key, min(arrived.start) AS start,"
        "  arrived.line AS line, fault.host AS host, fault.end AS end FROM fault JOIN arrived"
        "  ON arrived.start BETWEEN fault.start AND fault.end AND arrived.worker <> fault.host"
        "  WHERE isolates AND key <> '' GROUP BY fault.line, subscription, key)"
        " SELECT other.fault, other.line, arrived.line FROM other JOIN arrived"
        " ON arrived.subscription = other.subscription AND arrived.key = other.key"
        " AND arrived.worker = other.host AND arrived.start > other.start + ?"
        " AND arrived.start <= other.end",
        lease,
    )
    yield from _taking_turns(tables)


def _taking_turns(tables: Tables) -> Iterator[Witness]:
    """Return the first and the last attempt of the turns that workers took at a key for longer than the lease.

    A partition that moves has one new owner, and the old one begins no attempt after the lease. Owners that do not know of
    each other both deliver each event.
    """
    rows = tables.rows(
        "SELECT subscription, key, worker, start, line FROM arrived WHERE key <> ''"
        " ORDER BY subscription, key, start, line"
    )
    for _, group in groupby(rows, key=lambda row: row[:2]):
        yield from _turns([_Attempt(*row[2:]) for row in group], tables.terms.lease)


class _Attempt(NamedTuple):
    worker: str
    start: float
    line: int


def _turns(attempts: Sequence[_Attempt], lease: float) -> Iterator[Witness]:
    turns = [second for first, second in pairwise(attempts) if first.worker != second.worker]
    begin = 0
    for number, turn in enumerate(turns, start=1):
        if number == len(turns) or turns[number].start - turn.start > TURN:
            if turn.start - turns[begin].start > lease:
                yield (turns[begin].line, turn.line)
            begin = number
