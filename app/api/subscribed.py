"""One subscription, as whoever fetches its events finds it, and its way of reading messages."""

from __future__ import annotations

from app.api.problems import Refused
from app.api.running import Running
from app.bindings.record import Decoded
from app.bindings.table import BINDINGS
from app.bindings.transcode import in_version
from app.bindings.wrapping import Origin, wrap
from app.errors import SenderError
from app.formats import json
from app.model.message import Message
from app.model.subscription import Subscription


async def subscription_of(running: Running, name: str) -> Subscription:
    """Raises Refused for one that is not there."""
    for each in await running.declared():
        if each.id == name:
            return each
    raise Refused(404, "unknown-subscription", f"there is no subscription {name}")


class Reading:
    """Events out of messages, in the version of the subscription; ``wrap`` as its worker does."""

    def __init__(self, running: Running, subscription: Subscription) -> None:
        self._subscription = subscription
        self._broker = subscription.source.broker
        self._decode = BINDINGS[running.kinds[self._broker]].decode
        self._lasting = running.logs[self._broker].capabilities.positions

    def read(self, message: Message) -> Decoded | None:
        """None: it is no event."""
        try:
            decoded = self._decode(message.record)
        except SenderError:
            if self._subscription.on_foreign != "wrap":
                return None
            decoded = wrap(message.record, self._origin(message))
        return in_version(decoded, self._subscription.specversion)

    def _origin(self, message: Message) -> Origin:
        topic, number = message.partition.topic, message.partition.number
        if not self._lasting:
            return Origin(self._broker, topic, number)
        return Origin(self._broker, topic, number, message.position, message.time_ms)


def json_of(decoded: Decoded | None) -> bytes | None:
    """The event in the JSON format; None where it is none, or its document is in a format that nobody here
    reads."""
    return None if decoded is None or decoded.opaque else json.write_event(decoded.event)
