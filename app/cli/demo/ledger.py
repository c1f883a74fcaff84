"""The account of a demo: what was sent, accepted, delivered and dead-lettered. Pure.

The endpoints of the demo count the deliveries, not the service. They check the order in which
events arrive, and compare their bytes with the sent ones. Only the number of dead letters comes
from the service. For every subscription, delivered and dead-lettered events must add up to the
accepted ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.event.value import CloudEvent


class EventTrace(msgspec.Struct):
    """The history of one event in the demo. ``answers`` has, for each endpoint, the HTTP statuses
    that it answered to this event, in the order of the attempts.
    """

    number: int
    event: CloudEvent
    receipt: Mapping[str, Any] | None = None
    refusal: str = ""
    answers: dict[str, list[int]] = {}

    @property
    def key(self) -> str | None:
        return self.event.attributes.get("partitionkey")

    def delivered(self, endpoint: str) -> int:
        """Return how often the endpoint accepted the event."""
        return sum(map(is_taken, self.answers.get(endpoint, ())))


class SubscriptionAccount(msgspec.Struct, frozen=True):
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
        """Return True if accepted = delivered + dead-lettered, the order was kept, and no byte was
        changed.
        """
        balanced = self.accepted == self.delivered + self.dead_lettered
        return balanced and not (self.order_breaks or self.changed)


class Account(msgspec.Struct, frozen=True):
    """The account of the whole demo."""

    sent: int
    accepted: int
    lines: tuple[SubscriptionAccount, ...]

    @property
    def holds(self) -> bool:
        """Return True if every sent event was accepted and the account of every subscription holds."""
        return self.sent == self.accepted and all(line.holds for line in self.lines)


class DemoLedger:
    """A record of what happened to each event of the demo. Each of the ``endpoints`` has a
    subscription that gets every event.
    """

    def __init__(self, events: Sequence[CloudEvent], endpoints: Sequence[str]) -> None:
        self.endpoints = tuple(endpoints)
        self.traces = {event.id: EventTrace(number, event) for number, event in enumerate(events)}
        self._taken: dict[str, list[EventTrace]] = {name: [] for name in endpoints}
        self._changed = dict.fromkeys(endpoints, 0)

    def accepted(self, event_id: str, receipt: Mapping[str, Any]) -> None:
        self.traces[event_id].receipt = receipt

    def refused(self, event_id: str, why: str) -> None:
        self.traces[event_id].refusal = why

    def arrived(self, endpoint: str, event_id: str, data: bytes | None, status: int) -> None:
        trace = self.traces[event_id]
        trace.answers.setdefault(endpoint, []).append(status)
        if data != trace.event.data:
            self._changed[endpoint] += 1
        if is_taken(status):
            self._taken[endpoint].append(trace)

    def account(self, dead_letters: Mapping[str, int]) -> Account:
        """Return the account of the demo. ``dead_letters`` has the number of dead letters of each
        subscription, as the service counts them.
        """
        accepted = sum(trace.receipt is not None for trace in self.traces.values())
        lines = [self._line(name, accepted, dead_letters.get(name, 0)) for name in self.endpoints]
        return Account(sent=len(self.traces), accepted=accepted, lines=tuple(lines))

    def is_finished(self, trace: EventTrace, dead_lettered: Mapping[str, set[str]]) -> bool:
        """Return True if each endpoint has accepted the event, or the event is a dead letter of the
        endpoint's subscription.
        """
        return trace.receipt is not None and all(
            trace.delivered(name) or trace.event.id in dead_lettered.get(name, ())
            for name in self.endpoints
        )

    def _line(self, name: str, accepted: int, dead_letters: int) -> SubscriptionAccount:
        taken = self._taken[name]
        return SubscriptionAccount(
            subscription=name,
            accepted=accepted,
            delivered=len({trace.number for trace in taken}),
            dead_lettered=dead_letters,
            attempts=sum(len(trace.answers.get(name, ())) for trace in self.traces.values()),
            duplicates=len(taken) - len({trace.number for trace in taken}),
            order_breaks=order_breaks(taken),
            changed=self._changed[name],
        )


def is_taken(status: int) -> bool:
    return 200 <= status < 300  # noqa: PLR2004 - 2xx


def order_breaks(taken: Sequence[EventTrace]) -> int:
    """Count the events that arrived for the first time after a later event of the same topic and
    key.

    Events without a key have no order.
    """
    latest: dict[tuple[str, str], int] = {}
    seen: set[int] = set()
    breaks = 0
    for trace in taken:
        if trace.key is None or trace.number in seen:
            continue
        seen.add(trace.number)
        place = (str((trace.receipt or {}).get("topic")), trace.key)
        if trace.number < latest.get(place, -1):
            breaks += 1
        latest[place] = max(trace.number, latest.get(place, -1))
    return breaks
