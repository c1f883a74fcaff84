"""Every format, version and broker on the way out; and what nobody here reads."""

from __future__ import annotations

import pytest

from app.bindings import http, kafka
from app.bindings.record import Record
from app.bindings.table import BINDINGS
from app.bindings.transcode import EncodeOptions
from app.interfaces import SinkAnswer
from app.model.message import Partition
from waiting import until
from worker_doubles import an_event


def an_opaque_record(*headers):
    content_type = ("content-type", b"application/cloudevents+new; v=1")
    return Record(b"k", (content_type, *headers), b"\x00\xff")


async def test_an_opaque_document_is_delivered_byte_for_byte(rig):
    """H6, 4.7: without an id it is no less a delivery, and its attempt says so."""
    sent = rig.webhook()
    await rig.publish(an_opaque_record())
    await rig.begin()
    await until(lambda: rig.delivered == 1)
    assert (sent[0].headers, sent[0].body) == (
        (("Content-Type", "application/cloudevents+new; v=1"),),
        b"\x00\xff",
    )
    (attempt,) = rig.attempts.recent(10)
    assert (attempt.event.id, attempt.event.source, attempt.outcome) == ("", "", "delivered")


async def test_an_opaque_document_matches_by_its_mirrored_headers_alone(rig):
    sent = rig.webhook()
    await rig.publish(an_opaque_record(), an_opaque_record(("ce_type", b"wanted")))
    await rig.begin(filters=[{"exact": {"type": "wanted"}}])
    await rig.committed(2)
    assert [dict(request.headers)["ce-type"] for request in sent] == ["wanted"]


@pytest.mark.parametrize("settings", [{"format": "json"}, {"format": "avro", "specversion": "1.0"}])
async def test_what_cannot_be_written_as_asked_is_a_dead_letter(rig, settings):
    """4.7: no waiting will turn it into JSON; the others of its key go on."""
    rig.webhook()
    await rig.publish(an_opaque_record(), an_event(1, "k"))
    await rig.begin(content_mode="structured", **settings)
    await rig.committed(2)
    (letter,) = rig.store.letters.rows
    assert (letter.cause, letter.attempts, letter.status) == ("unwritable", 1, None)
    assert "application/cloudevents+new" in letter.detail
    assert rig.delivered == 1


async def test_an_opaque_document_that_is_refused_is_a_dead_letter(rig):
    rig.webhook(SinkAnswer(415))
    await rig.publish(an_opaque_record())
    await rig.begin()
    await rig.committed(1)
    (letter,) = rig.store.letters.rows
    assert (letter.cause, letter.message.record.body) == ("status-415", b"\x00\xff")


async def test_foreign_headers_go_along_as_the_subscription_says(rig):
    """I3: traceparent by default; the record keeps the rest."""
    sent = rig.webhook()
    record = an_event(1)
    extra = (("traceparent", b"00-a-b-01"), ("x-team", b"blue"))
    await rig.publish(Record(record.key, record.headers + extra, record.body))
    await rig.begin()
    await rig.committed(1)
    headers = dict(sent[0].headers)
    assert (headers.get("traceparent"), headers.get("x-team")) == ("00-a-b-01", None)


@pytest.mark.parametrize("kind", ["rabbitmq", "pulsar"])
async def test_a_record_is_read_by_the_binding_of_its_broker(rig, kind):
    """The same event from any broker is the same request."""
    sent = rig.webhook()
    event = kafka.decode(an_event(1))
    await rig.publish(BINDINGS[kind].encode(event, EncodeOptions(), b"k"))
    await rig.begin(kind=kind)
    await rig.committed(1)
    assert sent[0].headers == http.encode(event, EncodeOptions()).headers


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3"])
async def test_a_subscription_has_its_version(rig, version):
    """specversion of a subscription: a target that knows one version gets that one."""
    sent = rig.webhook()
    await rig.publish(an_event(1))
    await rig.begin(specversion=version)
    await rig.committed(1)
    headers = [(name.lower().encode(), text.encode()) for name, text in sent[0].headers]
    (decoded,) = http.decode(headers, sent[0].body)
    assert decoded.event.version == version


async def test_a_copy_of_a_dead_letter_is_the_whole_record(rig):
    """Typed headers, the message id and the time are the event's as much as its texts."""
    rig.webhook(SinkAnswer(415))
    record = an_event(1)
    record = Record(record.key, record.headers, record.body, "a/b", {"n": 5}, "id", 7)
    await rig.copies.create_topic("dead", 1)
    await rig.publish(record)
    await rig.begin(dead_letter={"broker": "copies", "topic": "dead"})
    await rig.committed(1)
    ((copy, _),) = rig.copies.partitions[Partition("dead", 0)]
    assert (copy.content_type, copy.natives, copy.message_id, copy.time_ms) == (
        "a/b",
        {"n": 5},
        "id",
        7,
    )
