"""One message on its way to the target of one subscription: one value from the log or the store to the end."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import NamedTuple

from app.bindings.record import Decoded
from app.delivery.plan import SETTLE, Decision
from app.interfaces import DeadLetter, EventName, Outgoing
from app.interfaces.kept import event_name
from app.model.message import Message
from app.worker.owned_partition import OwnedPartition

OVERHEAD = 3_000  # bytes that a held message costs beside its body and key, about


class Verdict(NamedTuple):
    """The decision about a delivery, with the cause and the answer that its row or its dead letter quotes."""

    decision: Decision
    cause: str = ""
    detail: str = ""
    status: int | None = None


SETTLED = Verdict(SETTLE)
"""The verdict of a delivery that succeeded, or was not tried yet."""


class Origin:
    """The place that a delivery came from, and how the delivery is finished there.

    ``owned``      the partition of the message, under the ownership of this process.
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
        """Finish a message that was delivered, has expired, or was stored as a row."""
        raise NotImplementedError

    async def save(self, delivery: Delivery, due: float) -> None:
        """Write to its row, if it has one, how often it was tried and that it waits until ``due`` (monotonic seconds).
        Raise StoreUnavailable or StaleOwner if nothing was written."""

    def retry_at(self, delivery: Delivery, due: float) -> None:
        """Release it from memory, to be tried again at ``due`` (monotonic seconds)."""
        raise NotImplementedError

    async def dead_letter(self, delivery: Delivery, letter: DeadLetter) -> None:
        """Store its dead letter and finish it in the same step. Raise StoreUnavailable or StaleOwner if it is not
        stored."""
        raise NotImplementedError

    def release(self, delivery: Delivery) -> None:
        """Drop the delivery undecided. The next owner of the partition reads it again."""


@dataclass(eq=False, repr=False, slots=True)
class Delivery:
    """A message on its way to the target of a subscription that wants it.

    ``decoded``   the event; None for a record that is no CloudEvent. ``foreign`` is then the reason, ``named`` the
                  attributes that it has all the same, and ``on_foreign`` decides what becomes of it.
    ``lane``      the queue that it stands in (``lane_id``).
    ``origin``    where it came from, and how it is finished there.
    ``steps``     failures that took a step of the schedule. ``attempts`` counts all attempts.
    ``last``      the last verdict. ``due``: the store refused it, so it is carried out again. ``refusals``: how often
                  in a row.
    ``most``      events of the largest request that it may be in (``batching``).
    ``size``      bytes that it costs while it is held. Headers count twice, as they came and as the attributes they
                  are: an event may be all headers (rule 8).
    """

    message: Message
    decoded: Decoded | None
    lane: bytes
    origin: Origin
    foreign: str = ""
    named: EventName | None = None
    steps: int = 0
    attempts: int = 0
    last: Verdict = SETTLED
    due: bool = False
    refusals: int = 0
    most: int = sys.maxsize
    size: int = field(init=False)

    def __post_init__(self) -> None:
        record = self.message.record
        size = OVERHEAD + len(record.body or b"") + len(record.key or b"")
        for _, value in record.headers:
            if value:
                size += 2 * len(value)
        self.size = size

    @property
    def name(self) -> EventName:
        """What the event is found by."""
        return self.named or event_name(self.decoded)

    def outgoing(self, timeout: float) -> Outgoing:
        """Return what the sink gets. ``timeout``: seconds for one attempt."""
        return Outgoing(self.message, self.decoded, timeout, self.lane)
