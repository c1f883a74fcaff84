"""A delivery: one message on its way to the target of one subscription."""

from __future__ import annotations

import sys
from typing import NamedTuple

import msgspec

from app.bindings.record import Decoded
from app.delivery.plan import SETTLE, Decision
from app.interfaces import DeadLetter, DeliveryRequest, EventName
from app.interfaces.kept import event_name
from app.model.message import Message
from app.worker.owned_partition import OwnedPartition

OVERHEAD = 3_000  # approximate bytes of a held message in addition to its body and key


class Verdict(NamedTuple):
    """The decision about a delivery, with the cause and the answer that its row or dead letter quotes."""

    decision: Decision
    cause: str = ""
    detail: str = ""
    status: int | None = None


SETTLED = Verdict(SETTLE)
"""The verdict of a delivery that succeeded, or that has not been tried yet."""


class DeliveryOrigin:
    """The source of a delivery, which also finishes the delivery there.

    ``owned`` is the partition of the message while this process owns it. ``parked_since_ms`` is when the message
    became a row of the store, in ms since the epoch, or None for a message outside the store. ``age_limited`` is
    False if an old event may be delivered, as in a replay. ``holds_lane`` is False if live events of the key go on
    while this event waits in the store."""

    __slots__ = ("owned",)  # a worker may have 40,000
    parked_since_ms: int | None = None
    age_limited = True
    holds_lane = True

    def __init__(self, owned: OwnedPartition) -> None:
        self.owned = owned

    def finish(self, delivery: Delivery) -> None:
        """Finish a message that was delivered, has expired, or was stored as a row."""
        raise NotImplementedError

    async def save(self, delivery: Delivery, due: float) -> None:
        """Update the stored row, if there is one, with its number of attempts and the time of the next attempt.

        Args:
            delivery: the delivery of the row.
            due: the time of the next attempt, in monotonic seconds.

        Raises:
            StoreUnavailable: nothing was written.
            StaleOwner: nothing was written, because another process owns the partition.
        """

    def retry_at(self, delivery: Delivery, due: float) -> None:
        """Drop the delivery from memory and schedule its next attempt at ``due`` (monotonic seconds)."""
        raise NotImplementedError

    async def dead_letter(self, delivery: Delivery, letter: DeadLetter) -> None:
        """Store the dead letter and finish the message in the same transaction.

        Raises:
            StoreUnavailable: the dead letter was not stored.
            StaleOwner: the dead letter was not stored, because another process owns the partition.
        """
        raise NotImplementedError

    def release(self, delivery: Delivery) -> None:
        """Drop the delivery undecided. The next owner of the partition reads it again."""


class Delivery(msgspec.Struct, eq=False):
    """A message on its way to the target of one subscription.

    ``decoded`` is the event, or None for a record that is not a CloudEvent. For such a record ``decode_error`` is
    the reason and ``named`` has the attributes that could be read. ``lane`` identifies the queue of its key
    (``lane_id``).

    ``steps`` counts the failures that used a step of the retry schedule; ``attempts`` counts all attempts. ``last``
    is the last verdict. ``store_pending`` is True if the store refused a write, so the same verdict is carried out
    again. ``refusals`` counts such refusals in a row.

    ``earlier_due`` is when the next attempt was due before an operator requested it (monotonic seconds), else None.
    ``retry_requested`` is True if an operator requested a try while an attempt was in flight.

    ``max_batch`` is the number of events of the largest request that may contain this delivery. ``size`` is its
    memory cost in bytes. Headers count twice, because they are held as headers and as attributes."""

    message: Message
    decoded: Decoded | None
    lane: bytes
    origin: DeliveryOrigin
    decode_error: str = ""
    named: EventName | None = None
    steps: int = 0
    attempts: int = 0
    last: Verdict = SETTLED
    store_pending: bool = False
    refusals: int = 0
    earlier_due: float | None = None
    retry_requested: bool = False
    max_batch: int = sys.maxsize
    size: int = 0

    def __post_init__(self) -> None:
        record = self.message.record
        size = OVERHEAD + len(record.body or b"") + len(record.key or b"")
        for _, value in record.headers:
            if value:
                size += 2 * len(value)
        self.size = size

    @property
    def name(self) -> EventName:
        """Return the source, id and other attributes by which the event can be found."""
        return self.named or event_name(self.decoded)

    def outgoing(self, timeout: float) -> DeliveryRequest:
        """Return the request for the sink, with the timeout of one attempt in seconds."""
        return DeliveryRequest(self.message, self.decoded, timeout, self.lane)
