"""The account of a demo: what was sent, accepted, delivered and dead-lettered. Pure.

It believes nobody: deliveries are counted where they arrive, order is read from the order in which
they arrive, bytes are compared with those that were sent. Only the dead letters are the service's
own word, and then the sum must be right for every subscription.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.event.value import CloudEvent


class Way(msgspec.Struct):
    """One event's way. ``answers``: what each endpoint answered to its attempts, in order."""

    number: int
    event: CloudEvent
    receipt: Mapping[str, Any] | None = None
    refusal: str = ""
    answers: dict[str, list[int]] = {}

    @property
    def key(self) -> str | None:
        return self.event.attributes.get("partitionkey")

    def delivered(self, endpoint: str) -> int:
        """How often it arrived and was taken."""
        return sum(map(is_taken, self.answers.get(endpoint, ())))


class Line(msgspec.Struct, frozen=True):
    """The account of one subscription."""

    subscription: str
    accepted: int
    delivered: int
    dead_lettered: int
    attempts: int
    duplicates: int
    order_breaks: int
    changed: int

    @property
    def holds(self) -> bool:
        balanced = self.accepted == self.delivered + self.dead_lettered
        return balanced and not (self.order_breaks or self.changed)


class Account(msgspec.Struct, frozen=True):
    sent: int
    accepted: int
    lines: tuple[Line, ...]

    @property
    def holds(self) -> bool:
        return self.sent == self.accepted and all(line.holds for line in self.lines)


class Ledger:
    """``endpoints``: the names of the subscriptions, each of which wants every event."""

    def __init__(self, events: Sequence[CloudEvent], endpoints: Sequence[str]) -> None:
        self.endpoints = tuple(endpoints)
        self.ways = {event.id: Way(number, event) for number, event in enumerate(events)}
        self._taken: dict[str, list[Way]] = {name: [] for name in endpoints}
        self._changed = dict.fromkeys(endpoints, 0)

    def accepted(self, event_id: str, receipt: Mapping[str, Any]) -> None:
        self.ways[event_id].receipt = receipt

    def refused(self, event_id: str, why: str) -> None:
        self.ways[event_id].refusal = why

    def arrived(self, endpoint: str, event_id: str, data: bytes | None, status: int) -> None:
        way = self.ways[event_id]
        way.answers.setdefault(endpoint, []).append(status)
        if data != way.event.data:
            self._changed[endpoint] += 1
        if is_taken(status):
            self._taken[endpoint].append(way)

    def account(self, dead_letters: Mapping[str, int]) -> Account:
        """``dead_letters``: count by subscription, as the service has them."""
        accepted = sum(way.receipt is not None for way in self.ways.values())
        lines = [self._line(name, accepted, dead_letters.get(name, 0)) for name in self.endpoints]
        return Account(sent=len(self.ways), accepted=accepted, lines=tuple(lines))

    def is_finished(self, way: Way, dead_lettered: Mapping[str, set[str]]) -> bool:
        """Whether every endpoint has it, or its dead letter is stored."""
        return way.receipt is not None and all(
            way.delivered(name) or way.event.id in dead_lettered.get(name, ())
            for name in self.endpoints
        )

    def _line(self, name: str, accepted: int, dead_letters: int) -> Line:
        taken = self._taken[name]
        return Line(
            subscription=name,
            accepted=accepted,
            delivered=len({way.number for way in taken}),
            dead_lettered=dead_letters,
            attempts=sum(len(way.answers.get(name, ())) for way in self.ways.values()),
            duplicates=len(taken) - len({way.number for way in taken}),
            order_breaks=order_breaks(taken),
            changed=self._changed[name],
        )


def is_taken(status: int) -> bool:
    return 200 <= status < 300  # noqa: PLR2004 - the class of success


def order_breaks(taken: Sequence[Way]) -> int:
    """How often an event arrived for the first time behind a later one of the same topic and key.
    Events without a key have no order."""
    latest: dict[tuple[str, str], int] = {}
    seen: set[int] = set()
    breaks = 0
    for way in taken:
        if way.key is None or way.number in seen:
            continue
        seen.add(way.number)
        place = (str((way.receipt or {}).get("topic")), way.key)
        if way.number < latest.get(place, -1):
            breaks += 1
        latest[place] = max(way.number, latest.get(place, -1))
    return breaks
