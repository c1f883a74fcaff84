"""Lines of a history written by hand: events of key ``k`` for the subscription ``billing``, and their judgement."""

from __future__ import annotations

from typing import Any

from proof.checker import Judgement, judge_lines
from proof.history import Delivery, Event, Left, Record, Request, Terms, in_memory

BILLING = Terms(subscriptions={"billing": "events"})


def event(number: int, **more: Any) -> Event:
    return Event(f"{number}", "k", f"{number}", **more)


def request(number: int, start: float, status: int | None = 202, **more: Any) -> Request:
    """Return a request that takes 0.1 s."""
    return Request("gateway-1", start, start + 0.1, status, (event(number),), **more)


def delivery(
    *numbers: int, at: float, status: int | None = 204, worker: str = "worker-1"
) -> Delivery:
    """Return an attempt that takes 0.1 s."""
    return Delivery("billing", worker, at, at + 0.1, status, tuple(map(event, numbers)))


def kept(number: int, place: str = "dead-letter") -> Left:
    return Left("billing", f"{number}", place)


def judged(*records: Record, terms: Terms = BILLING) -> Judgement:
    return judge_lines(in_memory((*records, terms)))


def faults(*records: Record, terms: Terms = BILLING) -> dict[str, int]:
    """Return the count of each verdict that convicts."""
    return judged(*records, terms=terms).faults
