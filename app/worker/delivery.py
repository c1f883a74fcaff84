"""A delivery: one message on its way to one subscription's target. It is one value from here to the end."""

from __future__ import annotations

import sys
from typing import NamedTuple

from app.bindings.record import Decoded
from app.delivery.plan import SETTLE, Decision
from app.interfaces import DeadLetter, EventName, Outgoing
from app.interfaces.kept import event_name
from app.model.message import Message
from app.worker.owned_partition import OwnedPartition

OVERHEAD = 3_000  # bytes that a held message costs beside its body and key, about


class Verdict(NamedTuple):
    """What was decided of a delivery, and what the target said: for its row, or its dead letter."""

    decision: Decision
    cause: str = ""
    detail: str = ""
    status: int | None = None


SETTLED = Verdict(SETTLE)
"""Nothing is to be said of it: it was delivered, or not tried yet."""


class Origin:
    """``owned``      the partition of its messages, with our ownership of it.
    ``since_ms``   since when it waits in the store; None where it does not: then its wait may hold its lane.
    ``ages``       whether its age counts: an event that is read again on purpose may be old.
    ``holds_lane`` whether the live events behind it wait for it while it is in the store.
    """

    since_ms: int | None = None
    ages = True
    holds_lane = True

    def __init__(self, owned: OwnedPartition) -> None:
        self.owned = owned

    def finish(self, delivery: Delivery) -> None:
        """It was delivered, has expired, or is a row of the store from now on."""
        raise NotImplementedError

    async def save(self, delivery: Delivery, due: float) -> None:
        """Its row says how often it was tried, and that it waits until ``due`` (monotonic); without a row
        there is nothing to say. StoreUnavailable, StaleOwner."""

    def retry_at(self, delivery: Delivery, due: float) -> None:
        """It leaves the memory, and is tried again at ``due``."""
        raise NotImplementedError

    async def dead_letter(self, delivery: Delivery, letter: DeadLetter) -> None:
        """It is stored as this when this returns, and finished in the same step. StoreUnavailable,
        StaleOwner: it is not."""
        raise NotImplementedError

    def release(self, delivery: Delivery) -> None:
        """It is held no more, and nothing was decided: its next owner gets it."""


class Delivery:
    """A message that is wanted.

    ``decoded``   the event; None for a record that is no CloudEvent. ``foreign`` then says why not, and
                  ``on_foreign`` what becomes of it. ``named``: what it is found by all the same.
    ``lane``      the queue that it stands in (``lane_id``).
    ``origin``    where it came from, and how it is finished there.
    ``steps``     failures that took a step of the schedule. ``attempts`` counts all attempts.
    ``last``      the last verdict. ``due``: the store refused it, so it is carried out again.
                  ``refusals``: how often in a row.
    ``most``      events of the largest request that it may be in (``batching``).
    ``size``      bytes that it costs while it is held.
    """

    __slots__ = (
        *("attempts", "decoded", "due", "foreign", "lane", "last", "message", "most", "named"),
        *("origin", "refusals", "size", "steps"),
    )

    def __init__(
        self,
        message: Message,
        decoded: Decoded | None,
        lane: bytes,
        origin: Origin,
        foreign: str = "",
        named: EventName | None = None,
    ) -> None:
        self.message = message
        self.decoded = decoded
        self.lane = lane
        self.origin = origin
        self.foreign = foreign
        self.named = named
        self.steps = 0
        self.attempts = 0
        self.last = SETTLED
        self.due = False
        self.refusals = 0
        self.most = sys.maxsize
        self.size = _size(message)

    @property
    def name(self) -> EventName:
        return self.named or event_name(self.decoded)

    def outgoing(self, timeout: float) -> Outgoing:
        """``timeout``: seconds for one attempt."""
        return Outgoing(self.message, self.decoded, timeout, self.lane)


def _size(message: Message) -> int:
    """Headers count twice, as they came and as the attributes they are: an event may be all headers
    (rule 8)."""
    record = message.record
    size = OVERHEAD + len(record.body or b"") + len(record.key or b"")
    for _, value in record.headers:
        if value:
            size += 2 * len(value)
    return size
