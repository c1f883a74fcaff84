"""Every format through a real socket: what is valid is stored as the same event, what is not is 4xx and
stores nothing; and what nobody here reads goes all the way to a webhook as it came.
"""

from __future__ import annotations

import json
import struct
from contextlib import AsyncExitStack
from typing import Any

import pytest

from app.bindings import kafka
from app.bindings.record import Decoded
from app.brokers.embedded import ConsumerSettings, open_log
from app.gateway.publish import Publisher, PublishPolicy
from app.model.log_name import LogName
from app.model.message import Message, Partition
from app.model.route import Route
from app.routing.plan import Router
from app.store import open_store
from app.telemetry import Counters
from listening import listening
from loopback_supervisor import supervisor_of
from raw_http import RawAnswer, RawConnection, request
from waiting import until
from webhook_target import WebhookTarget, status

TOPIC = "events"
GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
JSON, JSONS = "application/cloudevents+json", "application/cloudevents-batch+json"
PROTOBUF, PROTOBUFS = "application/cloudevents+protobuf", "application/cloudevents-batch+protobuf"
AVRO = "application/cloudevents+avro"


def varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def field(number: int, content: bytes | int) -> bytes:
    """Of Protobuf: a varint, or bytes with their length."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def protobuf(*rest: bytes, **core: bytes | None) -> bytes:
    """A message of io.cloudevents.v1; None leaves a required field out."""
    fields = {"id": b"1", "source": b"/s", "spec_version": b"1.0", "type": b"t"} | core
    written = [
        field(n, text) for n, text in enumerate(fields.values(), start=1) if text is not None
    ]
    return b"".join([*written, *rest])


def attribute(name: bytes, kind: int, value: bytes | int) -> bytes:
    return field(5, field(1, name) + field(2, field(kind, value)))


def batch(*events: bytes) -> bytes:
    return b"".join(field(1, event) for event in events)


def zigzag(number: int) -> bytes:
    return varint(number * 2)


def text(value: str | bytes) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return zigzag(len(content)) + content


NULL, BOOLEAN, INT, STRING, BYTES = (zigzag(branch) for branch in range(5))
NO_DATA = zigzag(1)


def avro(attributes: dict[str, bytes] | None = None, data: bytes = NO_DATA) -> bytes:
    """A record of the Avro format: branch and value of each attribute, branch and value of data."""
    entries = {name: STRING + text(value) for name, value in GOOD.items()} | (attributes or {})
    items = b"".join(text(name) + value for name, value in entries.items() if value)
    return zigzag(len([value for value in entries.values() if value])) + items + zigzag(0) + data


def event(**members: Any) -> bytes:
    return json.dumps(
        {name: value for name, value in (GOOD | members).items() if value is not ...}
    ).encode()


Expected = tuple[dict[str, str], bytes | None]
ONE: Expected = ({}, None)

VALID: list[tuple[str, str, bytes, list[Expected]]] = [
    ("minimal", JSON, event(), [ONE]),
    ("bare name of the family", "application/cloudevents", event(), [ONE]),
    ("any case, parameters", 'Application/CloudEvents+JSON ; charset="UTF-8"; a=b', event(), [ONE]),
    ("with a byte order mark", JSON, b"\xef\xbb\xbf" + event(), [ONE]),
    ("in UTF-16", f"{JSON}; charset=utf-16", event().decode().encode("utf-16"), [ONE]),
    ("null is unset", JSON, event(subject=None, data=None, datacontenttype=None), [({}, b"null")]),
    ("data_base64", JSON, event(data_base64="AP8="), [({}, b"\x00\xff")]),
    ("typed extensions", JSON, event(n=-5, b=True, s="x"), [({"n": "-5", "b": "true", "s": "x"}, None)]),
    ("numbers to the digit", JSON, event()[:-1] + b',"data":{"n":1.10}}', [({}, b'{"n":1.10}')]),
    ("JSON string keeps its quotes", JSON, event(data="x"), [({}, b'"x"')]),
    ("text is text", JSON, event(data="x", datacontenttype="text/plain"),
     [({"datacontenttype": "text/plain"}, b"x")]),
    ("empty batch", JSONS, b"[]", []),
    ("batch", JSONS, b"[" + event() + b" , " + event(id="2") + b"]", [ONE, ({"id": "2"}, None)]),
    ("protobuf", PROTOBUF, protobuf(), [ONE]),
    ("protobuf, any case", "APPLICATION/CloudEvents+ProtoBuf; x=y", protobuf(), [ONE]),
    ("protobuf attributes", PROTOBUF,
     protobuf(attribute(b"b", 1, 1), attribute(b"n", 2, 7), attribute(b"s", 3, b"x"),
              attribute(b"u", 5, b"http://x/"), attribute(b"subject", 3, b"y"),
              attribute(b"time", 7, field(1, 1_600_000_000))),
     [({"b": "true", "n": "7", "s": "x", "u": "http://x/", "subject": "y",
        "time": "2020-09-13T12:26:40Z"}, None)]),
    ("protobuf binary data", PROTOBUF, protobuf(field(6, b"\x00\xff")), [({}, b"\x00\xff")]),
    ("protobuf text data", PROTOBUF,
     protobuf(attribute(b"datacontenttype", 3, b"text/plain"), field(7, "é".encode())),
     [({"datacontenttype": "text/plain"}, "é".encode())]),
    ("protobuf empty batch", PROTOBUFS, b"", []),
    ("protobuf batch", PROTOBUFS, batch(protobuf(), protobuf(id=b"2")), [ONE, ({"id": "2"}, None)]),
    ("avro", AVRO, avro(), [ONE]),
    ("avro attributes", AVRO,
     avro({"b": BOOLEAN + b"\x01", "n": INT + zigzag(7), "s": STRING + text("x"), "unset": NULL}),
     [({"b": "true", "n": "7", "s": "x"}, None)]),
    ("avro bytes", AVRO, avro(data=zigzag(0) + text(b"\x00\xff")), [({}, b"\x00\xff")]),
    ("avro double", AVRO, avro(data=zigzag(5) + struct.pack("<d", 0.5)), [({}, b"0.5")]),
]  # fmt: skip

INVALID: list[tuple[str, str, bytes, int]] = [
    *((f"no {name}", JSON, event(**{name: ...}), 400) for name in GOOD),
    *((f"empty {name}", JSON, event(**{name: ""}), 400) for name in GOOD),
    *((f"{name} of a wrong type", JSON, event(**{name: 5}), 400) for name in GOOD),
    *((f"null {name}", JSON, event(**{name: None}), 400) for name in GOOD),
    ("unknown specversion", JSON, event(specversion="2.0"), 400),
    ("source is no reference", JSON, event(source="a b"), 400),
    ("time is none", JSON, event(time="yesterday"), 400),
    ("dataschema is relative", JSON, event(dataschema="x"), 400),
    ("datacontenttype is none", JSON, event(datacontenttype="x"), 400),
    ("name in upper case", JSON, event(Ext="x"), 400),
    ("name with a dash", JSON, event(**{"a-b": "x"}), 400),
    ("an object", JSON, event(ext={}), 400),
    ("a fraction", JSON, event(ext=1.5), 400),
    ("a large integer", JSON, event(ext=2**31), 400),
    ("data twice", JSON, event(data=1, data_base64="AA=="), 400),
    ("bad base64", JSON, event(data_base64="*"), 400),
    ("a control", JSON, event(subject="\x07"), 400),
    ("no JSON", JSON, b"{", 400),
    ("an array", JSON, b"[]", 400),
    ("nothing", JSON, b"", 400),
    ("not UTF-8", JSON, b'{"id":"\xff"}', 400),
    ("batch of no array", JSONS, event(), 400),
    ("batch with one bad", JSONS, b"[" + event() + b"," + event(id="") + b"]", 400),
    ("batch of two versions", JSONS, b"[" + event() + b"," + event(specversion="0.3") + b"]", 400),
    ("batch of nothing", JSONS, b"", 400),
    ("unknown charset", f"{JSON}; charset=klingon", event(), 415),
    ("wrong charset", f"{JSON}; charset=utf-16le", b"\x00", 400),
    ("xml", "application/cloudevents+xml", b"<event/>", 415),
    ("xml batch", "application/cloudevents-batch+xml", b"<events/>", 415),
    ("malformed media type", f"{JSON}; =", event(), 400),
    ("a list of media types", f"{JSON}, {PROTOBUF}", event(), 400),
    ("plain JSON", "application/json", event(), 400),
    ("plain protobuf", "application/protobuf", protobuf(), 400),
    *((f"protobuf without {name}", PROTOBUF, protobuf(**{name: None}), 400)
      for name in ("id", "source", "spec_version", "type")),
    *((f"protobuf with empty {name}", PROTOBUF, protobuf(**{name: b""}), 400)
      for name in ("id", "source", "spec_version", "type")),
    ("protobuf of nothing", PROTOBUF, b"", 400),
    ("protobuf cut short", PROTOBUF, protobuf()[:-1], 400),
    ("protobuf of JSON", PROTOBUF, event(), 400),
    ("protobuf not UTF-8", PROTOBUF, protobuf(id=b"\xff"), 400),
    ("protobuf unknown version", PROTOBUF, protobuf(spec_version=b"2.0"), 400),
    ("protobuf bad source", PROTOBUF, protobuf(source=b"a b"), 400),
    ("protobuf upper case", PROTOBUF, protobuf(attribute(b"Ext", 3, b"x")), 400),
    ("protobuf name data", PROTOBUF, protobuf(attribute(b"data", 3, b"x")), 400),
    ("protobuf no name", PROTOBUF, protobuf(attribute(b"", 3, b"x")), 400),
    ("protobuf large integer", PROTOBUF, protobuf(attribute(b"n", 2, 2**31)), 400),
    ("protobuf time of text", PROTOBUF, protobuf(attribute(b"time", 3, b"noon")), 400),
    ("protobuf far time", PROTOBUF, protobuf(attribute(b"time", 7, field(1, 2**60))), 400),
    ("protobuf no value", PROTOBUF, protobuf(field(5, field(1, b"ext") + field(2, b""))), 400),
    ("protobuf data twice", PROTOBUF, protobuf(field(6, b"a"), field(7, b"b")), 400),
    ("protobuf same name twice", PROTOBUF,
     protobuf(attribute(b"ext", 3, b"a"), attribute(b"ext", 3, b"b")), 400),
    ("protobuf batch with one bad", PROTOBUFS, batch(protobuf(), protobuf(id=b"")), 400),
    ("protobuf batch cut short", PROTOBUFS, batch(protobuf())[:-1], 400),
    ("protobuf batch of JSON", PROTOBUFS, b"[" + event() + b"]", 400),
    *((f"avro without {name}", AVRO, avro({name: b""}), 400) for name in GOOD),
    ("avro of nothing", AVRO, b"", 400),
    ("avro cut short", AVRO, avro()[:-1], 400),
    ("avro with more behind", AVRO, avro() + b"\x00", 400),
    ("avro unknown branch", AVRO, avro({"ext": zigzag(9)}), 400),
    ("avro upper case", AVRO, avro({"Ext": STRING + text("x")}), 400),
    ("avro empty id", AVRO, avro({"id": STRING + text("")}), 400),
    ("avro of JSON", AVRO, event(), 400),
    ("avro not a number", AVRO, avro(data=zigzag(5) + struct.pack("<d", float("nan"))), 400),
]  # fmt: skip


class House:
    """The listener before an embedded log, and a webhook behind it."""

    def __init__(self) -> None:
        self.port = 0
        self.log: Any = None
        self.store: Any = None
        self.counters = Counters()
        self.target = WebhookTarget(lambda _: status(204))
        self.rooms = AsyncExitStack()

    async def open(self, folder: Any, **route: Any) -> None:
        consumers = ConsumerSettings(commit_interval=0.05)
        self.log = open_log(name="log", path=folder / "log", partitions=1, consumers=consumers)
        self.store = open_store(folder / "store.db", timeout=60.0)
        await self.log.start()
        self.rooms.push_async_callback(self.log.stop)
        await self.store.start()
        self.rooms.push_async_callback(self.store.stop)
        await self.log.create_topic(TOPIC, 1)
        to = {"broker": "log", "topic": TOPIC}
        routes = [Route.model_validate({"name": "all", "to": to} | route)]
        router = Router(routes, kinds={"log": "embedded"})
        forward = frozenset({b"traceparent", b"tracestate"})
        policy = PublishPolicy(router=router, forward=forward)
        publisher = Publisher(policy, {LogName("log"): self.log}, self.counters)
        server = await self.rooms.enter_async_context(listening(publisher, counters=self.counters))
        self.port = server.port

    async def deliver(self, **settings: Any) -> None:
        await self.target.start()
        self.rooms.push_async_callback(self.target.stop)
        source = {"broker": "log", "topics": [TOPIC]}
        named = {"id": "s", "source": source, "start": "earliest", "sink": self.target.url}
        supervisor = supervisor_of(named | settings, self.log, self.store, self.counters)
        await supervisor.start()
        self.rooms.push_async_callback(supervisor.stop, 1.0)

    async def post(
        self, content_type: str, body: bytes, *headers: tuple[str, str | bytes]
    ) -> RawAnswer:
        async with await RawConnection.open(self.port) as peer:
            await peer.send(request(body=body, headers=[("content-type", content_type), *headers]))
            return await peer.answer()

    async def messages(self, start: int = 0) -> list[Message]:
        metadata = await self.log.metadata([TOPIC])
        (partition,) = metadata.topics[0].partitions
        reader = self.log.read(Partition(TOPIC, 0), str(start), partition.latest)
        return [message async for message in reader]

    async def stored(self, start: int) -> list[Decoded]:
        return [kafka.decode(message.record) for message in await self.messages(start)]

    async def arrived(self, count: int = 1) -> None:
        await until(lambda: len(self.target.received) >= count)


@pytest.fixture
async def house():
    made = House()
    async with made.rooms:
        yield made


@pytest.mark.parametrize("mode", ["binary", "structured", "as_received"])
async def test_what_is_valid_is_stored_as_the_same_event(house, tmp_path, mode):
    """2xx, and the record holds the attributes and the data to the byte, in every content mode."""
    await house.open(tmp_path, content_mode=mode)
    wrong = []
    for name, content_type, body, events in VALID:
        before = len(await house.messages())
        answer = await house.post(content_type, body)
        found = [(each.event.attributes, each.event.data) for each in await house.stored(before)]
        wanted = [(GOOD | attributes, data) for attributes, data in events]
        if answer.status != 202 or not same(found, wanted):
            wrong.append((name, answer.status, answer.body, found, wanted))
    assert wrong == []


def same(found: list[Expected], wanted: list[Expected]) -> bool:
    """What JSON implied may be said (J13)."""
    return len(found) == len(wanted) and all(
        attributes | expected == attributes
        and set(attributes) - set(expected) <= {"datacontenttype"}
        and data == expected_data
        for (attributes, data), (expected, expected_data) in zip(found, wanted, strict=True)
    )


async def test_what_is_invalid_is_4xx_and_stores_nothing(house, tmp_path):
    """G5: with its faults as a problem document, never 5xx, never half a batch."""
    await house.open(tmp_path)
    wrong = []
    for name, content_type, body, expected in INVALID:
        answer = await house.post(content_type, body)
        problem = json.loads(answer.body) if answer.body else {}
        if answer.status != expected or problem.get("status") != expected:
            wrong.append((name, answer.status, answer.body))
    assert wrong == []
    assert await house.messages() == []


OPAQUE = [
    ("application/cloudevents+new; v=1", b"\x00\xff"),
    ("application/cloudevents-batch+new", b"any"),
    ("application/cloudevents-batch+avro", b""),
    ("application/cloudevents2", b"<x/>"),
]


@pytest.mark.parametrize("mode", ["binary", "structured", "as_received"])
@pytest.mark.parametrize(("content_type", "body"), OPAQUE)
async def test_what_is_not_read_arrives_byte_for_byte(house, tmp_path, mode, content_type, body):
    """H6, K5, 4.7: from request to webhook; mirrored headers go along in each spelling."""
    await house.open(tmp_path, content_mode=mode)
    await house.deliver(content_mode=mode)
    answer = await house.post(
        content_type, body, ("ce-type", "t%20x"), ("traceparent", "00-a-b-01")
    )
    assert answer.status == 202
    await house.arrived()
    (request,) = house.target.received
    assert (request.header("content-type"), request.body) == (content_type, body)
    assert (request.header("ce-type"), request.header("traceparent")) == ("t%20x", "00-a-b-01")
    (message,) = await house.messages()
    assert dict(message.record.headers)["ce_type"] == b"t x"


async def test_what_is_not_read_cannot_become_json(house, tmp_path):
    """4.7: a route with a fixed format answers 415 and stores nothing."""
    await house.open(tmp_path, content_mode="structured", format="json")
    answer = await house.post("application/cloudevents+new", b"x")
    assert answer.status == 415
    assert await house.messages() == []


async def test_a_format_is_written_as_a_route_and_a_subscription_ask(house, tmp_path):
    """JSON in, Protobuf on the log, Avro out: one event."""
    await house.open(tmp_path, content_mode="structured", format="protobuf")
    await house.deliver(content_mode="structured", format="avro")
    assert (await house.post(JSON, event(ext="x", data={"n": 1}))).status == 202
    (message,) = await house.messages()
    assert dict(message.record.headers)["content-type"] == PROTOBUF.encode()
    await house.arrived()
    (request,) = house.target.received
    assert request.header("content-type") == AVRO
    before = len(await house.messages())
    assert (await house.post(AVRO, request.body)).status == 202
    (decoded,) = await house.stored(before)
    assert decoded.event.attributes == GOOD | {"ext": "x", "datacontenttype": "application/json"}
    assert decoded.event.data == b'{"n": 1}'


async def test_an_extension_of_0_1_returns_as_it_was_spelled(house, tmp_path):
    """V6, trap 9: the listener keeps the case of CE-X-MyExt, and the webhook gets it."""
    await house.open(tmp_path)
    await house.deliver()
    sent = [
        ("CE-CloudEventsVersion", '"0.1"'), ("CE-EventID", '"1"'), ("CE-Source", '"http://s/"'),
        ("CE-EventType", '"t"'), ("CE-X-MyExt", '"v"'), ("CE-X-UPPER", "5"),
    ]  # fmt: skip
    assert (await house.post("text/plain", b"x", *sent)).status == 202
    (decoded,) = await house.stored(0)
    assert decoded.event.attributes["myext"] == "v"
    await house.arrived()
    (request,) = house.target.received
    names = [line.partition(b":")[0].decode() for line in request.raw_head.split(b"\r\n")]
    assert {name for name, _ in sent} <= set(names)
    assert request.header("ce-x-myext") == '"v"'


async def test_a_trace_goes_from_request_to_webhook_beside_the_event(house, tmp_path):
    """I3: traceparent is no attribute anywhere; other headers stay behind."""
    await house.open(tmp_path)
    await house.deliver()
    sent = [("traceparent", "00-a-b-01"), ("tracestate", "x=1"), ("authorization", "secret")]
    assert (await house.post(JSON, event(), *sent)).status == 202
    await house.arrived()
    (request,) = house.target.received
    assert (request.header("traceparent"), request.header("tracestate")) == ("00-a-b-01", "x=1")
    assert not request.has("authorization")
    assert not request.has("ce-traceparent")
