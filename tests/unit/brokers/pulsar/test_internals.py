"""The names of the client's extension that the driver leans on are there, and mean what they did."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from pathlib import Path

import _pulsar
import pulsar
import pytest

from app.bindings.record import Record
from app.brokers.pulsar import extension
from app.brokers.pulsar.bridge import Bridge
from app.brokers.pulsar.errors import ClientError, Next, judge, translate
from app.brokers.pulsar.extension import below
from app.brokers.pulsar.messages import build, record_of
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown

QUIET = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
NAMES = {
    "Client": "create_producer_async subscribe_async create_reader_async close_async "
    "get_topic_partitions_async",
    "Producer": "send_async is_connected close_async",
    "Consumer": "acknowledge_async close_async is_connected get_last_message_id_async "
    "pause_message_listener resume_message_listener",
    "ConsumerConfiguration": "message_listener",
    "Reader": "has_message_available_async read_next close_async",
    "Message": "properties partition_key has_null_value data event_timestamp publish_timestamp",
}


@pytest.mark.parametrize("name", NAMES)
def test_the_extension_has_what_the_driver_calls(name: str) -> None:
    """A new version of the client that renames something must fail here, not in an outage."""
    assert all(hasattr(getattr(_pulsar, name), each) for each in NAMES[name].split())


def test_a_public_client_has_an_asynchronous_half() -> None:
    """The one private attribute that is used of a public class."""
    client = pulsar.Client("pulsar://127.0.0.1:1", logger=QUIET)
    try:
        assert isinstance(below(client), _pulsar.Client)
    finally:
        client.close()


def test_one_module_alone_reaches_below_the_public_classes() -> None:
    """So that a new version of the client is a matter of one page."""
    folder = Path(extension.__file__).parent
    importing = {
        path.name
        for path in folder.glob("*.py")
        if re.search(r"^(import|from) _pulsar\b", path.read_text(), re.MULTILINE)
    }
    assert importing == {"extension.py"}


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
    assert record_of(build(record)) == record


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
    assert judge(_pulsar.Result.AlreadyClosed) is Next.AGAIN
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
