"""From a message of the log to one that is held for delivery, or finished by not being wanted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

from app.bindings.record import Decoded, Record
from app.bindings.wrapping import Origin, wrap
from app.delivery.lane_id import lane_id
from app.delivery.parked_lanes import ParkedLane
from app.delivery.plan import Decision
from app.errors import SenderError
from app.event.value import CloudEvent
from app.filters.cesql.expression import Failed
from app.filters.cesql.values import Failure
from app.filters.dialects import can_fail, compile_filters
from app.filters.index import types_of
from app.interfaces import EventName, Parked, Wanted
from app.model.message import Message
from app.model.subscription import Subscription

FILTERED, FILTER_ERROR = "filtered", "filter_error"
OVERHEAD = 1_000  # bytes that a held message costs beside its body and key, about


class Verdict(NamedTuple):
    """What was decided of a message, and what the target said: for its row, or its dead letter."""

    decision: Decision
    cause: str = ""
    detail: str = ""
    status: int | None = None


class Held:
    """A message on its way out.

    ``lane``      what it is in line with (``lane_id``).
    ``decoded``   None for a record that is no CloudEvent; ``foreign`` then says why not. It is copied
                  or buried, as ``on_foreign`` says.
    ``steps``     failures that took a step of the schedule; ``attempts`` counts all attempts.
    ``last``      what was decided of it last; ``due``: and is still to be carried out, because the store
                  did not take it. ``refusals``: how often it did not, in a row.
    ``row``       of the store, where it waited: parked, or redriven. None for a live one.
    ``copied``    it is in the topic of dead letters; its letter is not stored yet.
    ``parked``    the lane that it was read from; None for live and redriven ones. ``done``: its row goes,
                  or is gone.
    ``until``     when its row may be tried again (monotonic); 0.0: it was not given back to the store.
    ``replayed``  it is read again: its group has nothing to do with it, and its age is meant.
    ``landed``    told once, when it is held no more, whatever became of it.
    ``most``      events of the largest request that it may be in (``together``).
    ``size``      bytes that it costs while it is held.
    ``gone``      its partition is no longer ours: whatever comes of it concerns others now.
    """

    __slots__ = (
        *("attempts", "copied", "decoded", "done", "due", "foreign", "gone", "landed", "lane"),
        *("last", "message", "most", "parked", "refusals", "replayed", "row", "size", "steps"),
        "until",
    )

    def __init__(
        self, message: Message, decoded: Decoded | None, foreign: str = "", lane: bytes = b""
    ) -> None:
        self.message = message
        self.decoded = decoded
        self.foreign = foreign
        self.lane = lane
        self.steps = 0
        self.attempts = 0
        self.most = sys.maxsize
        self.last: Verdict | None = None
        self.due = False
        self.refusals = 0
        self.copied = False
        self.replayed = False
        self.row: Parked | None = None
        self.parked: ParkedLane | None = None
        self.done = False
        self.until = 0.0
        self.landed: Callable[[Held], None] | None = None
        self.gone = False
        self.size = _size(message)


def name_of(held: Held) -> EventName:
    if held.decoded is None:
        return EventName()
    attributes = held.decoded.event.attributes
    names = (attributes.get(name, "") for name in ("id", "source", "type"))
    return EventName(*names)


def _size(message: Message) -> int:
    """Headers count twice, as they came and as the attributes they are: an event may be all headers
    (rule 8)."""
    record = message.record
    size = OVERHEAD + len(record.body or b"") + len(record.key or b"")
    for _, value in record.headers:
        if value is not None:
            size += 2 * len(value)
    return size


class Intake:
    """Reads and filters for one subscription, and knows whose lane a message belongs in.

    ``decode``   of the binding of its source's broker.
    ``lasting``  whether positions are the same when a message is delivered again.
    ``failed``   is told of each filter expression that fails.
    """

    def __init__(
        self,
        subscription: Subscription,
        decode: Callable[[Record], Decoded],
        *,
        lasting: bool = True,
        failed: Failed | None = None,
    ) -> None:
        self._decode = decode
        self._wraps = subscription.on_foreign == "wrap"
        self._broker = subscription.source.broker
        self._lasting = lasting
        self._types = types_of(subscription.filters)
        self._wanted = compile_filters(subscription.filters, self._fail if failed else None)
        self._can_fail = failed is not None and can_fail(subscription.filters)
        self._told_of_failure = failed
        self._failed = False  # an expression did, for the event that is looked at
        self._failures = 0  # of events that the log did not hand out, and has not told of
        self._skip_foreign = subscription.on_foreign == "skip"
        self._ordered = subscription.ordering == "per_key"
        self._order_by = subscription.order_by

    def wanted(self, finished: Callable[[str, int], None]) -> Wanted:
        """What its log need not hand out. ``finished``: is told of so many, by the word as in ``read``."""

        def passed(count: int) -> None:
            failures = min(self._failures, count)
            self._failures -= failures
            for word, number in ((FILTERED, count - failures), (FILTER_ERROR, failures)):
                if number:
                    finished(word, number)

        return Wanted(self._types, self._holds if self._can_fail else self._wanted, passed)

    def _holds(self, event: CloudEvent) -> bool:
        self._failed = False
        wanted = self._wanted(event)
        self._failures += self._failed and not wanted
        return wanted

    def _fail(self, event: CloudEvent, expression: str, failure: Failure) -> None:
        self._failed = True
        if self._told_of_failure is not None:
            self._told_of_failure(event, expression, failure)

    def read(self, message: Message) -> Held | str:
        """The message as held; or the word for why it is finished already: ``skipped``, ``filtered``, and
        ``filter_error`` where an expression failed on it."""
        if message.decoded is not None:  # the log has looked: it is wanted
            return self._held(message, message.decoded)
        try:
            decoded = self._decode(message.record)
        except SenderError as error:
            if not self._wraps:
                return "skipped" if self._skip_foreign else self._held(message, None, str(error))
            decoded = wrap(message.record, self._origin(message))
        self._failed = False
        if not self._wanted(decoded.event):
            return FILTER_ERROR if self._failed else FILTERED
        return self._held(message, decoded)

    def read_back(self, row: Parked) -> Held:
        """A row of the store as held. It was wanted when it was stored, and nobody asks again."""
        message = row.message
        try:
            held = self._held(message, self._decode(message.record))
        except SenderError as error:
            wrapped = wrap(message.record, self._origin(message)) if self._wraps else None
            held = self._held(message, wrapped, str(error))
        held.lane = row.lane or held.lane
        held.row, held.steps, held.attempts = row, row.steps, row.attempts
        return held

    def _origin(self, message: Message) -> Origin:
        topic, number = message.partition.topic, message.partition.number
        if not self._lasting:
            return Origin(self._broker, topic, number)
        return Origin(self._broker, topic, number, message.position, message.time_ms)

    def _held(self, message: Message, decoded: Decoded | None, foreign: str = "") -> Held:
        return Held(message, decoded, foreign, self._lane(message, decoded))

    def _lane(self, message: Message, decoded: Decoded | None) -> bytes:
        """Rule 3: the key of the record, within its partition; or the attribute, wherever it comes
        from. Without either there is no order, and each message has a lane of its own."""
        key = value = None
        if self._ordered and self._order_by is None:
            key = message.record.key
        elif self._ordered and decoded is not None:
            value = decoded.event.attributes.get(self._order_by or "")
        return lane_id(key, value, message.partition, message.offset)
