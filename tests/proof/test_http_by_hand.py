"""The HTTP of sender and target: an event that was changed on its way is another one."""

from __future__ import annotations

import asyncio
import json

import pytest

from proof.http_by_hand import (
    Message,
    Sent,
    batch_request,
    binary_request,
    read_message,
    receipts,
    received,
    take_message,
)

EVENT = Sent(
    {"id": "k-1", "source": "/a", "type": "t", "subject": 'Größe "1%"', "partitionkey": "k"},
    '{"n":  1, "text": "\\u00e9\U0001d11e"}',
)


class Receiver(asyncio.StreamReader):
    """What the target would read of these bytes."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.feed_data(content)
        self.feed_eof()


async def test_the_event_that_was_sent_is_the_one_that_was_received() -> None:
    for sent in (binary_request("h", EVENT), batch_request("h", [EVENT, EVENT])):
        message = await read_message(Receiver(sent))
        assert set(received(message)) == {EVENT.seen()}
        parts = bytearray(sent[:-1])
        assert take_message(parts) is None
        parts += sent[-1:] + sent[:9]
        assert take_message(parts) == message
        assert parts == sent[:9]


BINARY = binary_request("h", EVENT)
IN_BATCH = batch_request("h", [EVENT])


@pytest.mark.parametrize(
    ("sent", "old", "new"),
    [
        (BINARY, b"ce-type: t", b"ce-type: u"),
        (BINARY, b"%221%25%22", b"1%25"),  # the quotes of the subject
        (BINARY, b"ce-source: /a\r\n", b""),
        (BINARY, b"ce-type: t", b"ce-type: t\r\nce-type: t"),
        (BINARY, b"ce-type: t", b"ce-type: t\r\nce-other: x"),
        (BINARY, b"ce-specversion: 1.0", b"ce-specversion: 0.3"),
        (BINARY, b"application/json", b"application/json; charset=utf-8"),
        (BINARY, b'"n":  1', b'"n" : 1'),
        (IN_BATCH, b'"type": "t"', b'"type": "u"'),
        (IN_BATCH, b'"type": "t"', b'"type": "t", "other": "x"'),
        (IN_BATCH, b'"application/json"', b'"application/xml"'),
        (IN_BATCH, b'"n":  1', b'"n" : 1'),
        (IN_BATCH, b"\\u00e9\xf0", b"\xc3\xa9\xf0"),  # an equal text in other bytes
    ],
)
async def test_a_change_in_one_part_of_an_event_is_seen(
    sent: bytes, old: bytes, new: bytes
) -> None:
    """Events are forwarded unchanged: attributes as text, data byte for byte (guarantees)."""
    head, _, body = sent.partition(b"\r\n\r\n")
    place = body if old in body else head
    assert place.count(old) == 1
    changed = place.replace(old, new)
    whole = sent.replace(place, changed)
    length = len(body if place is head else changed)
    whole = whole.replace(b"content-length: %d" % len(body), b"content-length: %d" % length)
    message = await read_message(Receiver(whole))
    assert received(message) != (EVENT.seen(),)


def test_a_receipt_of_each_event_is_its_place_in_the_log() -> None:
    places = [
        {"index": 1, "broker": "log", "topic": "t", "partition": 3, "position": "17"},
        {"index": 0, "broker": "log", "topic": "t", "partition": 3, "position": ""},
    ]
    answer = Message("HTTP/1.1 200 OK", {}, json.dumps(places).encode())
    assert receipts(answer, 2) == [None, "log/t/3/17"]
    spooled = [{"index": 0, "broker": "s", "topic": "__spool.all", "partition": 0, "position": "1"}]
    answer = Message("HTTP/1.1 200 OK", {}, json.dumps(spooled).encode())
    assert receipts(answer, 1, "gateway1") == ["gateway1/s/__spool.all/0/1"]
