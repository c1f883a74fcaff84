"""Commands that the API gives to the worker of a subscription: so far, to send a test event."""

from __future__ import annotations

import msgspec

from app.bindings.record import ContentMode, Decoded
from app.bindings.table import BINDINGS
from app.bindings.transcode import PLAIN
from app.errors import SenderError
from app.formats import json
from app.interfaces import Clock, Command, DeliveryRequest, Sink, SinkAnswer
from app.model.message import Message, Partition
from app.model.subscription import Subscription

CLIP = 2_000  # bytes of the target's answer that are passed back
_SUCCESS = range(200, 300)


class TestResult(msgspec.Struct, frozen=True):
    """The result of a ``test`` command: the answer of the target and its duration."""

    delivered: bool
    status: int | None
    fault: str
    detail: str
    duration_ms: float
    response: str


async def run_command(
    command: Command, subscription: Subscription, sink: Sink, kind: str, clock: Clock
) -> bytes:
    """Send the test event of a command and return the result as JSON.

    The event is sent at once, without ordering, filters, pauses and rates, because a test shows how the target
    answers now.

    Args:
        command: the command, with the event as its body.
        subscription: the subscription to test.
        sink: the sink of the subscription.
        kind: the kind of the source's broker.
        clock: measures the duration.
    """
    started = clock.monotonic()
    try:
        answer = await sink.send(_test_event(command, subscription, kind, clock))
    except SenderError as error:
        answer = SinkAnswer(None, "unwritable", str(error))
    return msgspec.json.encode(_tested(answer, (clock.monotonic() - started) * 1000))


def _test_event(
    command: Command, subscription: Subscription, kind: str, clock: Clock
) -> DeliveryRequest:
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
    return DeliveryRequest(message, decoded, subscription.timeout)


def _tested(answer: SinkAnswer, duration_ms: float) -> TestResult:
    return TestResult(
        delivered=answer.status in _SUCCESS,
        status=answer.status,
        fault=answer.fault,
        detail=answer.detail,
        duration_ms=round(duration_ms, 3),
        response=answer.body[:CLIP].decode("utf-8", "replace"),
    )
