"""What the API asks of whichever worker runs a subscription: so far, to send a test event."""

from __future__ import annotations

import msgspec

from app.bindings.record import ContentMode, Decoded
from app.bindings.table import BINDINGS
from app.bindings.transcode import PLAIN
from app.errors import SenderError
from app.formats import json
from app.interfaces import Clock, Command, Outgoing, Sink, SinkAnswer
from app.model.message import Message, Partition
from app.model.subscription import Subscription

CLIP = 2_000  # bytes of the target's answer that are passed back
_SUCCESS = range(200, 300)


class Tested(msgspec.Struct, frozen=True):
    """The answer to a ``test``: what the target said, and how long it took."""

    delivered: bool
    status: int | None
    fault: str
    detail: str
    duration_ms: float
    response: str


async def obey(
    command: Command, subscription: Subscription, sink: Sink, kind: str, clock: Clock
) -> bytes:
    """The answer, as JSON. ``kind``: of the broker that its messages come from. The event goes past
    lanes, filters, pauses and rates: a test asks what the target says now."""
    started = clock.monotonic()
    try:
        answer = await sink.send(_test_event(command, subscription, kind, clock))
    except SenderError as error:
        answer = SinkAnswer(None, "unwritable", str(error))
    return msgspec.json.encode(_tested(answer, (clock.monotonic() - started) * 1000))


def _test_event(command: Command, subscription: Subscription, kind: str, clock: Clock) -> Outgoing:
    event = json.read_event(command.body)
    decoded = Decoded(event, ContentMode.BINARY)
    message = Message(
        record=BINDINGS[kind].encode(decoded, PLAIN, None),
        partition=Partition(subscription.source.topics[0], 0),
        position="",
        offset=0,
        time_ms=int(clock.now() * 1000),
        epoch=0,
    )
    return Outgoing(message, decoded, subscription.timeout)


def _tested(answer: SinkAnswer, duration_ms: float) -> Tested:
    return Tested(
        delivered=answer.status in _SUCCESS,
        status=answer.status,
        fault=answer.fault,
        detail=answer.detail,
        duration_ms=round(duration_ms, 3),
        response=answer.body[:CLIP].decode("utf-8", "replace"),
    )
