"""From a message of the log to one that is held for delivery, or finished by not being wanted."""

from __future__ import annotations

from collections.abc import Hashable

from app.bindings import kafka
from app.bindings.record import Decoded
from app.errors import SenderError
from app.filters.dialects import compile_filters
from app.model.message import Message
from app.model.subscription import Subscription

OVERHEAD = 1_000  # bytes that a held message costs beside its body and key, about


class Held:
    """A message on its way out.

    ``decoded``   None for a record that is no CloudEvent; ``foreign`` then says why not.
    ``steps``     failures that took a step of the schedule; ``attempts`` counts all attempts.
    ``size``      bytes that it costs while it is held.
    ``gone``      its partition is no longer ours: whatever comes of it concerns others now.
    """

    __slots__ = ("attempts", "decoded", "foreign", "gone", "message", "size", "steps")

    def __init__(self, message: Message, decoded: Decoded | None, foreign: str = "") -> None:
        self.message = message
        self.decoded = decoded
        self.foreign = foreign
        self.steps = 0
        self.attempts = 0
        self.gone = False
        self.size = _size(message)


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
    """Reads and filters for one subscription, and knows whose lane a message belongs in."""

    def __init__(self, subscription: Subscription) -> None:
        self._wanted = compile_filters(subscription.filters)
        self._skip_foreign = subscription.on_foreign == "skip"
        self._ordered = subscription.ordering == "per_key"
        self._order_by = subscription.order_by

    def read(self, message: Message) -> Held | str:
        """The message as held; or the word for why it is finished already: ``skipped``, ``filtered``."""
        try:
            decoded = kafka.decode(message.record)
        except SenderError as error:
            return "skipped" if self._skip_foreign else Held(message, None, str(error))
        if not self._wanted(decoded.event.attributes):
            return "filtered"
        return Held(message, decoded)

    def lane(self, held: Held) -> Hashable:
        """Rule 3: the key of the record, within its partition; or the attribute, wherever it comes
        from. Without either there is no order, and each message has a lane of its own."""
        message = held.message
        if not self._ordered:
            return (message.partition, message.offset)
        if self._order_by is None:
            key = message.record.key
            return (message.partition, message.offset if key is None else key)
        attributes = held.decoded.event.attributes if held.decoded else {}
        value = attributes.get(self._order_by)
        return (message.partition, message.offset) if value is None else value
