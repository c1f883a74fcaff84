"""Three endpoints of one receiving webhook. Each misbehaves as real ones do.

==========  ====================================================================================
picky       takes everything but one type, which it answers with 415: a dead letter at once
recovering  answers its first requests with 503: tried again, then the endpoint is paused
busy        answers now and then with 429 and Retry-After: 1, and must be left alone that long
==========  ====================================================================================
"""

from __future__ import annotations

from collections import Counter

from app.cli.receiver import Arrival, Reply
from app.cli.rehearsal.ledger import Ledger

NAMES = ("picky", "recovering", "busy")
REFUSED_TYPES = frozenset({"com.github.ping", "com.example.order.disputed"})
DOWN_FOR = 10  # requests: as many as it takes until the endpoint is paused
BUSY_EVERY = 150  # requests

_TAKEN = Reply(204)
_UNSUPPORTED = Reply(415)
_DOWN = Reply(503)
_TOO_MANY = Reply(429, ((b"retry-after", b"1"),))


class Endpoints:
    """Answers each request and notes it in the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._requests: Counter[str] = Counter()

    def answer(self, arrival: Arrival) -> Reply:
        name = arrival.path.strip("/")
        if name not in NAMES or not arrival.events:
            return Reply(400)
        self._requests[name] += 1
        event = arrival.events[0].event
        reply = self._reply(name, self._requests[name], event.type)
        self._ledger.arrived(name, event.id, event.data, reply.status)
        return reply

    def _reply(self, name: str, number: int, type_: str) -> Reply:
        if name == "picky" and type_ in REFUSED_TYPES:
            return _UNSUPPORTED
        if name == "recovering" and number <= DOWN_FOR:
            return _DOWN
        if name == "busy" and number % BUSY_EVERY == 1:
            return _TOO_MANY
        return _TAKEN
