"""What comes back of a record, what a result means, and how threads and the loop meet."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import _pulsar
import pulsar
import pytest

from app.bindings.record import Record
from app.brokers.pulsar.bridge import Bridge
from app.brokers.pulsar.errors import ClientError, FailureAction, judge, translate
from app.brokers.pulsar.messages import PublishArguments, build, record_of
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown

WITHIN = 60.0


def received(sent: PublishArguments) -> Any:
    """As the client has it on the other side."""
    builder = _pulsar.MessageBuilder()
    if sent.content is None:
        builder.set_null_value()
    else:
        builder.content(sent.content)
    builder.properties(sent.properties or {})
    if sent.partition_key:
        builder.partition_key(sent.partition_key)
    if sent.event_timestamp:
        builder.event_timestamp(sent.event_timestamp)
    return pulsar.Message._wrap(builder.build())


@pytest.mark.parametrize(
    "record",
    [
        Record(b"k", (("a", b"1"), ("b", b"")), b"x"),
        Record(b"", (), b"empty key"),
        Record(None, (), b"no key"),
        Record(b"\xff\x00", (), b"key of bytes"),
        Record(b"k", (), None),
        Record(b"k", (), b""),
        Record(b"k", (), bytes(range(256)), time_ms=1_700_000_000_000),
    ],
)
def test_a_record_comes_back_from_its_message(record: Record) -> None:
    """No key and an empty one, no value and an empty one stay apart; bytes stay bytes."""
    assert record_of(received(build(record))) == record


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (_pulsar.Result.TopicNotFound, "unknown-topic"),
        (_pulsar.Result.AuthorizationError, "not-authorised"),
        (_pulsar.Result.AuthenticationError, "not-authorised"),
        (_pulsar.Result.MessageTooBig, "record-too-large"),
        (_pulsar.Result.TopicTerminated, "other"),
    ],
)
def test_refusals_say_of_what_kind_they_are(result: _pulsar.Result, kind: str) -> None:
    """Spec 9: each kind has its own answer."""
    meaning = translate(ClientError(result), "main")
    assert isinstance(meaning, BrokerRefused)
    assert meaning.kind == kind


def test_every_other_result_can_be_tried_again() -> None:
    """A result that a newer client adds must not turn into a lost event."""
    assert isinstance(translate(ClientError(_pulsar.Result.Timeout), "main"), PublishUnknown)
    assert judge(_pulsar.Result.AlreadyClosed) is FailureAction.AGAIN
    for name in ("UnknownError", "ServiceUnitNotReady", "ConnectError", "ProducerBusy"):
        meaning = translate(ClientError(getattr(_pulsar.Result, name)), "main")
        assert isinstance(meaning, BrokerUnavailable)
    assert translate(ValueError("ours"), "main") is None
    assert isinstance(translate(TimeoutError(), "main"), BrokerError)


async def test_many_calls_from_foreign_threads_share_a_wake_up_and_keep_their_order() -> None:
    """The loop wakes for a bundle, not for each record (reliability 5.3)."""
    loop = asyncio.get_running_loop()
    woken = 0

    class Counting:
        def call_soon_threadsafe(self, call: object) -> None:
            nonlocal woken
            woken += 1
            loop.call_soon_threadsafe(call)  # type: ignore[arg-type]

    got: list[int] = []
    bridge = Bridge(Counting())  # type: ignore[arg-type]
    thread = threading.Thread(target=lambda: [bridge.post(got.append, n) for n in range(1_000)])
    thread.start()
    thread.join()  # the loop does not run meanwhile
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert got == list(range(1_000))
    assert woken == 1


async def test_a_call_that_blocks_does_not_block_the_loop() -> None:
    bridge, gate = Bridge(asyncio.get_running_loop()), threading.Event()
    asking = asyncio.create_task(
        bridge.ask(lambda word: gate.wait(WITHIN) and word, "done", within=WITHIN)
    )
    await asyncio.sleep(0)
    gate.set()
    assert await asking == "done"
    await bridge.wait_for_threads(WITHIN)


async def test_an_error_of_the_library_is_the_result_that_it_is_named_for() -> None:
    bridge = Bridge(asyncio.get_running_loop())

    def fail() -> None:
        raise pulsar.TopicNotFound

    with pytest.raises(ClientError) as caught:
        await bridge.ask(fail, within=WITHIN)
    assert caught.value.result is _pulsar.Result.TopicNotFound


async def test_a_handle_that_comes_too_late_is_closed() -> None:
    """Else it would hold its place at a partition for nobody."""
    bridge, gate, closed = Bridge(asyncio.get_running_loop()), threading.Event(), threading.Event()

    class Handle:
        def close(self) -> None:
            closed.set()

    def open_late() -> Handle:
        gate.wait(WITHIN)
        return Handle()

    with pytest.raises(TimeoutError):
        await bridge.ask(open_late, within=0.001)
    gate.set()
    async with asyncio.timeout(WITHIN):
        while not closed.is_set():
            await asyncio.sleep(0)
    await bridge.wait_for_threads(WITHIN)
