"""Judge what is in flight: a key has one attempt at a time at each subscription."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from proof.checker_faults import Faults
from proof.checker_order import Witness
from proof.checker_tables import Tables

LATE = 1.0  # seconds by which a target may read a request after its worker has begun it

_ATTEMPTS = """
SELECT subscription, key, start, line, worker, end, done, id FROM arrived
WHERE key <> '' AND receipt IS NULL ORDER BY subscription, key, start, line, pos
"""


class _Attempt(NamedTuple):
    """One request to a target.

    Attributes:
        until: The time until which its worker certainly waits for the answer.
        redriven: Whether it may have a dead letter that is redriven. Live events of the key do not wait for it.
    """

    worker: str
    start: float
    until: float
    line: int
    redriven: bool


def two_at_once(tables: Tables) -> Iterator[Witness]:
    """An attempt of a key began while another one of this key and subscription was in flight.

    A worker gives up an attempt after the time-out, whatever the target sees of it later. Two owners, lost connections and
    requests that arrive late are allowed in a fault and after it. Witness: the two attempts.
    """
    faults, timeout = Faults(tables), tables.terms.timeout
    for _, of_key in groupby(tables.rows(_ATTEMPTS), key=lambda row: row[:2]):
        in_flight: list[_Attempt] = []
        for each in _attempts(of_key, timeout):
            in_flight = [other for other in in_flight if other.until > each.start]
            for other in in_flight:
                if not _allowed(other, each, faults):
                    yield (other.line, each.line)
                    break
            in_flight.append(each)


def _allowed(first: _Attempt, second: _Attempt, faults: Faults) -> bool:
    if first.redriven or second.redriven:
        return True
    same = first.worker == second.worker
    windows = faults.disturb(first.worker) if same else faults.moves
    return windows.meets(first.start, second.start)


def _attempts(rows: Iterable[tuple[Any, ...]], timeout: float) -> Iterator[_Attempt]:
    """Return the attempts of a key. Each row is an event of one of them."""
    before: set[str] = set()  # the events of the attempt before
    failed: set[str] = set()  # the events whose last attempt has failed
    redriven: set[str] = set()  # those of them that were attempted again after others
    for line, events in groupby(rows, key=lambda row: row[3]):
        *_, last = request = list(events)
        _, _, start, _, worker, end, done, _ = last
        names = {row[7] for row in request}
        until = min(end, start + max(0.0, timeout - LATE))
        redriven |= (names & failed) - before
        yield _Attempt(worker, start, until, line, bool(names & redriven))
        before = names
        failed = failed - names if done else failed | names
        redriven &= failed
