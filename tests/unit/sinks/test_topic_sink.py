"""A topic as a sink: what is published under which key, and what each answer of a broker is called."""

from __future__ import annotations

import asyncio

import pytest

from app.bindings import kafka
from app.bindings.amqp_table import from_table
from app.bindings.record import Record
from app.bindings.table import BINDINGS
from app.delivery.outcomes import AT_TOPICS, Fate, judge
from app.errors import (
    BoundReached,
    BrokerRefused,
    BrokerUnavailable,
    PublishUnknown,
    UnclearRefusal,
)
from app.interfaces import DeliveryRequest
from app.model.message import Message, Partition
from app.model.receipt import Receipt
from app.model.subscription import Retry
from app.sinks.topic import TopicSink, sink_answer
from fake_log import FakeLog
from worker_doubles import a_subscription, an_event

COPY = Partition("copy", 0)


@pytest.fixture
async def log():
    log = FakeLog("target")
    await log.create_topic("copy", 1)
    return log


def a_sink(log, kind="kafka", topic="copy", **settings):
    subscription = a_subscription(sink={"broker": "target", "topic": topic}, **settings)
    return TopicSink(subscription.sink, subscription, log, kind)


def outgoing(record, *, decode=kafka.decode, timeout=15.0):
    message = Message(record, Partition("orders", 3), "7", 7, 0, 1)
    return DeliveryRequest(message, decode(record) if decode else None, timeout)


def stored(log, place=COPY):
    return [record for record, _ in log.partitions[place]]


@pytest.mark.parametrize("key", [None, b"", b"k", b"\xff\x00"])
async def test_the_key_goes_on_as_it_is(log, key):
    """K11: a worker never re-keys, whatever the bytes."""
    record = an_event(1)
    record = Record(key, record.headers, record.body)
    assert (await a_sink(log).send(outgoing(record))).status == 202
    assert stored(log) == [record]


@pytest.mark.parametrize("kind", sorted(BINDINGS))
async def test_the_event_is_written_as_its_broker_has_it(log, kind):
    await a_sink(log, kind).send(outgoing(an_event(1)))
    (record,) = stored(log)
    assert BINDINGS[kind].decode(record).event == kafka.decode(an_event(1)).event


async def test_mode_and_version_are_the_subscriptions(log):
    sink = a_sink(log, content_mode="structured", format="json", specversion="0.3")
    await sink.send(outgoing(an_event(1)))
    (record,) = stored(log)
    assert b'"specversion":"0.3"' in record.body


async def test_the_topic_may_be_made_of_attributes(log):
    await log.create_topic("copy.t", 1)
    await a_sink(log, topic="copy.{type}").send(outgoing(an_event(1)))
    assert len(stored(log, Partition("copy.t", 0))) == 1


async def test_an_event_that_makes_no_topic_is_unwritable(log):
    answer = await a_sink(log, topic="{subject}").send(outgoing(an_event(1)))
    assert (answer.status, answer.fault) == (None, "unwritable")
    assert judge(answer.status, answer.fault, frozenset()).fate is Fate.DEAD_LETTER


@pytest.mark.parametrize(
    ("forward", "left"),
    [(None, ["x-team", "Trace"]), (["trace"], ["Trace"]), (["x-*"], ["x-team"]), ([], [])],
)
async def test_all_foreign_headers_go_along_unless_some_are_named(log, forward, left):
    """I3: who mirrors a topic expects its headers; a webhook is somebody else's."""
    record = an_event(1)
    extra = (("x-team", b"blue"), ("Trace", b"\xff"))
    record = Record(record.key, record.headers + extra, record.body)
    settings = {} if forward is None else {"forward_headers": forward}
    await a_sink(log, **settings).send(outgoing(record))
    assert [name for name, _ in kafka.decode(stored(log)[0]).foreign] == left


async def test_a_record_that_is_no_event_is_copied(log):
    """on_foreign: forward. Key, headers with repeats and nulls, and the null body."""
    record = Record(b"k", (("a", b"1"), ("a", None)), None)
    sink = a_sink(log, on_foreign="forward")
    assert (await sink.send(outgoing(record, decode=None))).status == 202
    assert stored(log) == [record]


async def test_a_copy_keeps_the_content_type_between_brokers(log):
    """RabbitMQ has a property where the others have a header."""
    await a_sink(log, "kafka").send(outgoing(Record(None, (), b"x", "text/plain"), decode=None))
    await a_sink(log, "rabbitmq").send(outgoing(stored(log)[0], decode=None))
    there, back = stored(log)
    assert (there.headers, there.content_type) == ((("content-type", b"text/plain"),), None)
    assert back.content_type == "text/plain"


@pytest.mark.parametrize("kind", sorted(BINDINGS))
@pytest.mark.parametrize("value", [1.5, 2**31, {"a": 1}])
async def test_a_copy_does_not_leave_out_what_made_a_record_no_event(log, kind, value):
    """R9: with ce-f as null, others would take for an event what was none."""
    table = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/s",
        "ce-type": "t",
        "ce-f": value,
    }
    record = from_table(table, "text/plain", b"x")
    answer = await a_sink(log, kind).send(outgoing(record, decode=None))
    if kind == "rabbitmq":
        assert stored(log) == [record]
    else:
        assert (answer.fault, stored(log)) == ("unwritable", [])
        assert "ce-f" in answer.detail


async def test_a_copy_is_made_without_values_of_other_headers_that_its_broker_has_no_type_for(log):
    """I3: they are none of the event's, and the loss is told in the guide to mirrors."""
    record = from_table({"x-death": [{"count": 1}], "x-n": 5}, None, b"x")
    assert (await a_sink(log, "kafka").send(outgoing(record, decode=None))).status == 202
    assert stored(log)[0].headers == (("x-death", None), ("x-n", b"5"))


async def test_a_template_cannot_lead_back_into_a_source(log):
    """Lint can only warn of a template; the event itself decides, and is not copied round and round."""
    settings = {"source": {"broker": "target", "topics": ["orders"]}}
    answer = await a_sink(log, topic="{type}", **settings).send(
        outgoing(an_event(1, type="orders"))
    )
    assert answer.fault == "unwritable"
    assert "a loop" in answer.detail


ANSWERS = [
    (BrokerUnavailable("away"), 503, "1", Fate.RETRY),
    (BoundReached("full", retry_after=2.5), 503, "3", Fate.RETRY),
    (PublishUnknown("late", retry_after=1.0), 503, None, Fate.RETRY),
    (BrokerRefused("?", kind="unknown-topic"), 404, None, Fate.RETRY),
    (BrokerRefused("?", kind="unroutable"), 404, None, Fate.RETRY),
    (BrokerRefused("?", kind="not-authorised"), 403, None, Fate.RETRY),
    (BrokerRefused("?", kind="record-too-large"), 413, None, Fate.DEAD_LETTER),
    (BrokerRefused("?", kind="unwritable"), 422, None, Fate.DEAD_LETTER),
    (BrokerRefused("?", kind="other"), 500, None, Fate.RETRY),
]


@pytest.mark.parametrize(("error", "status", "retry_after", "fate"), ANSWERS, ids=str)
def test_each_refusal_of_a_broker_has_its_status(error, status, retry_after, fate):
    """spec.md 9, and one table of outcomes for webhooks and topics alike."""
    answer = sink_answer(error)
    assert (answer.status, answer.retry_after, answer.detail) == (status, retry_after, str(error))
    outcome = judge(answer.status, answer.fault, frozenset({404}) | AT_TOPICS)
    assert outcome.fate is fate
    assert outcome.endpoint_fault is (fate is Fate.RETRY)


def test_a_receipt_is_202():
    assert sink_answer(Receipt("b", "t", 0, "1")).status == 202


async def test_an_attempt_ends_at_the_subscriptions_own_timeout(log):
    """Where it is shorter than the log's; what was not on the wire is dropped by the log (rule 9)."""
    given: list[asyncio.Future] = []

    def never(_topic, _records):
        given.append(asyncio.get_running_loop().create_future())
        return given[0]

    log.submit = never
    subscription = a_subscription(sink={"broker": "target", "topic": "copy"})
    sink = TopicSink(subscription.sink, subscription, log, "kafka", within=10.0)
    answer = await sink.send(outgoing(an_event(1), timeout=0.01))
    assert (answer.status, answer.fault) == (None, "timeout")
    assert given[0].cancelled()


@pytest.mark.parametrize("kind", ["rejected", "record-too-large", "not-capable", "unwritable"])
async def test_a_record_that_its_topic_refuses_for_good_is_a_dead_letter_at_once(log, kind):
    """docs/guides/mirror.md: its position would else stand still for ever."""
    log.refusals.append(BrokerRefused("no", kind=kind))
    answer = await a_sink(log).send(outgoing(an_event(1)))
    outcome = judge(answer.status, answer.fault, frozenset(Retry().statuses))
    assert outcome.fate is Fate.DEAD_LETTER
    assert not outcome.endpoint_fault


async def test_an_unclear_refusal_pauses_nothing_but_its_own_key(log):
    """Otherwise the mirror sends nothing else, and never learns whether the topic takes others."""
    log.refusals.append(UnclearRefusal("error code 131"))
    answer = await a_sink(log).send(outgoing(an_event(1)))
    assert (answer.status, answer.retry_after, answer.hold) == (503, None, 0.0)


@pytest.mark.parametrize(
    ("kind", "attested", "kept"),
    [("embedded", False, False), ("embedded", True, True), ("kafka", False, True)],
)
@pytest.mark.parametrize("name", ["Skybridge-Producer", "Skybridge-Intake", "Skybridge-Route"])
@pytest.mark.parametrize("decode", [kafka.decode, None], ids=["event", "no event"])
async def test_an_embedded_log_takes_how_an_event_came_only_from_a_source_that_proves_it(
    log, kind, attested, kept, decode, name
):
    subscription = a_subscription(sink={"broker": "target", "topic": "copy"})
    sink = TopicSink(subscription.sink, subscription, log, kind, attested=attested)
    record = an_event(1)
    claim = (name, b"shop")
    claiming = Record(None, (*record.headers, claim, ("other", b"1")), record.body)
    await sink.send(outgoing(claiming, decode=decode))
    (copy,) = stored(log)
    assert (claim in copy.headers) is kept
    assert ("other", b"1") in copy.headers
