"""Turn a message of the log into a delivery, or finish the message because the subscription does not want it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.bindings import wrapping
from app.bindings.content_coding import without_coding
from app.bindings.forwarding import PRODUCER
from app.bindings.record import Decoded, Record
from app.delivery.lane_id import key_lane, lane_id
from app.delivery.plan import SETTLE
from app.errors import SenderError
from app.filters.selection import Selection
from app.interfaces import ConsumerFilter, EventName, Parked
from app.model.message import Message
from app.model.subscription import Subscription
from app.routing.order import compile_order
from app.worker.attempts import FILTER_ERROR, FILTERED
from app.worker.delivery import Delivery, DeliveryOrigin, Verdict


class DeliveryReader:
    """Decodes and filters the messages of one subscription, and finds the queue of each message's key (its lane).

    Args:
        subscription: the subscription.
        selection: the compiled filters.
        decode: the decoder of the broker's binding.
        content: returns a record without its content coding.
        lasting: whether a message has the same position when it is delivered again.
        names: returns the attributes by which a record that is not an event can be found.
    """

    def __init__(
        self,
        subscription: Subscription,
        selection: Selection,
        decode: Callable[[Record], Decoded],
        *,
        content: Callable[[Record], Record] = without_coding,
        lasting: bool = True,
        names: Callable[[Record], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self._decode = decode
        self._names = names
        self._uncode = content
        self._wraps = subscription.on_foreign == "wrap"
        self._broker = subscription.source.broker
        self._lasting = lasting
        self._selection = selection
        self._skip_foreign = subscription.on_foreign == "skip"
        self._ordered = subscription.ordering != "none"
        self._by_producer = subscription.ordering == "per_producer_key"
        self._order_of = compile_order(subscription.order_by)
        self._by_key = self._ordered and not self._by_producer and self._order_of is None

    @property
    def units(self) -> int:
        """Return the units of work for a message that the log has not filtered."""
        return 1 + self._selection.units

    def consumer_filter(self, passed: Callable[[int, int], None]) -> ConsumerFilter:
        """Return the filter that the log may apply itself. ``passed`` is called with the counts of skipped
        messages."""
        return ConsumerFilter(self._selection, self._decode, passed)

    def read(self, message: Message, origin: DeliveryOrigin) -> Delivery | str:
        """Return the delivery of a message, or the outcome of a message that is finished without one.

        The outcome is ``skipped``, ``filtered``, or ``filter_error`` if a filter expression failed."""
        decoded, foreign = message.decoded, ""
        if decoded is None:  # a decoded message was filtered by the log
            decoded, foreign = self._read(message)
            if decoded is None and self._skip_foreign:
                return "skipped"
            if decoded is not None and not self._selection.holds(decoded.event):
                return FILTER_ERROR if self._selection.failed else FILTERED
        name = None if decoded is not None else self._name(message.record, decoded)
        return Delivery(message, decoded, self._lane(message, decoded), origin, foreign, name)

    def read_back(self, row: Parked, origin: DeliveryOrigin) -> Delivery:
        """Return the delivery of a stored row. The row is not filtered, because it was wanted when it was stored."""
        message = row.message
        decoded, foreign = self._read(message)
        lane = row.lane or self._lane(message, decoded)
        name = self._name(message.record, decoded)
        delivery = Delivery(message, decoded, lane, origin, foreign, name)
        delivery.steps, delivery.attempts = row.steps, row.attempts
        delivery.last = Verdict(SETTLE, row.cause, row.detail)
        return delivery

    def _read(self, message: Message) -> tuple[Decoded | None, str]:
        """Return the event of a message, or the event that wraps it, and why the message itself is no event."""
        try:
            return self._decode(message.record), ""
        except SenderError as error:
            return self._wrapped(message) if self._wraps else None, str(error)

    def _name(self, record: Record, decoded: Decoded | None) -> EventName | None:
        """Return the attributes by which a record can be found if it is not an event; None for an event."""
        return EventName(**self._names(record)) if decoded is None else None

    def _wrapped(self, message: Message) -> Decoded:
        topic, number = message.partition.topic, message.partition.number
        at = (message.position, message.time_ms) if self._lasting else ()
        record = self._content(message.record)
        return wrapping.wrap(record, wrapping.RecordLocation(self._broker, topic, number, *at))

    def _content(self, record: Record) -> Record:
        try:
            return self._uncode(record)
        except SenderError:
            return record

    def _lane(self, message: Message, decoded: Decoded | None) -> bytes:
        """Return the lane of a message: the id of the queue in which it is delivered in order. The lane is the
        record key within its partition, or the value of ``order_by``. With ``per_producer_key`` each producer has
        lanes of its own. A message without key and value has a lane of its own, because it has no order."""
        if self._by_key and message.record.key is not None:
            return key_lane(message.record.key, message.partition)
        key = value = None
        if self._ordered and self._order_of is None:
            key = message.record.key
        elif self._ordered and decoded is not None and self._order_of is not None:
            value = self._order_of(decoded.event)
        producer = _producer(message.record, decoded) if self._by_producer else None
        return lane_id(key, value, message.partition, message.position, producer)


def _producer(record: Record, decoded: Decoded | None) -> bytes:
    """Return the name of the producer from the record's header, or empty bytes without one."""
    headers = record.headers if decoded is None else decoded.foreign
    return next((value for name, value in headers if name.lower() == PRODUCER and value), b"")
