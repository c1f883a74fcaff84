"""What every broker's binding does alike: versions, foreign headers, documents in any format."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from amqp_writing import to_table
from app.bindings import amqp_table, kafka, pulsar, pulsar_properties, rabbitmq
from app.bindings.documents import content_type_of
from app.bindings.forwarding import APART
from app.bindings.reading import read
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.table import BINDINGS
from app.bindings.transcode import PLAIN, EncodeOptions
from app.errors import InvalidEvent, SenderError
from app.event.convert import as_version
from app.event.validate import faults_of
from app.event.value import AttributeType, CloudEvent
from app.event.versions import VERSIONS
from app.formats.json import read_event, write_event
from app.formats.registry import FORMATS
from event_strategies import events, old_documents

BINARY, STRUCTURED, BATCH = ContentMode.BINARY, ContentMode.STRUCTURED, ContentMode.BATCH
GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
MODULES = {"kafka": kafka, "rabbitmq": rabbitmq, "pulsar": pulsar}
on_each_broker = pytest.mark.parametrize("name", list(MODULES))
NAMES = st.sampled_from(list(MODULES))


def carried(name: str, record: Record) -> Record:
    """The record after a way through the broker's own form of a message."""
    if name == "rabbitmq":
        table = to_table(record)
        return amqp_table.from_table(table, record.content_type, record.body or b"")
    if name == "pulsar":
        return pulsar_properties.from_message(pulsar_properties.to_message(record))
    return record


def typed(name: str, record: Record, content_type: str) -> Record:
    """The record with this content type, where the broker has it."""
    if name == "rabbitmq":
        return replace(record, content_type=content_type)
    header = "content-type" if name == "kafka" else "CE-ContentType"
    return replace(record, headers=(*record.headers, (header, content_type.encode())))


def content_type_in(name: str, record: Record) -> str | None:
    if name == "rabbitmq":
        return record.content_type
    value = dict(record.headers)["content-type" if name == "kafka" else "CE-ContentType"]
    return None if value is None else value.decode()


def refused_with(error: SenderError) -> None:
    assert 400 <= error.status < 500
    assert all(fault.rule and fault.detail.encode() for fault in error.faults)


# Versions


def as_told(event: CloudEvent) -> dict[str, str]:
    """Attributes as binary mode tells them: the type of JSON data is explicit (J13)."""
    content_type = content_type_of(event)
    implied = {} if content_type is None else {"datacontenttype": content_type}
    return {**event.attributes, **implied}


@given(events(), st.sampled_from(list(VERSIONS)), NAMES, st.sampled_from(["bare", "json"]))
def test_every_version_is_written_and_read_on_every_broker(
    event: CloudEvent, version: str, name: str, strings: str
) -> None:
    """Issue 4.1, V6: also by the strict reader, for an encoder writes to the letter."""
    module = MODULES[name]
    older = as_version(event, version)
    writing = EncodeOptions(strings=strings)
    record = carried(name, module.encode(Decoded(older, BINARY), writing, b"k"))
    strict = module.STRICT
    if name == "pulsar" and strings == "json":
        strict = replace(strict, quoted=True)

    for leniency in (module.LIBERAL, strict):
        back = module.decode(record, leniency)
        assert (back.mode, back.event.version) == (BINARY, version)
        assert back.event.attributes == as_told(older)
        assert (back.event.data or b"") == (event.data or b"")
        assert back.foreign == ()


@given(old_documents(), NAMES)
def test_what_came_in_an_older_version_leaves_in_it_the_same(
    old: tuple[str, str], name: str
) -> None:
    """V4, 3.3: names, quotes, Maps: a second way through changes nothing any more."""
    module = MODULES[name]
    event = read_event(old[1].encode())
    record = module.encode(Decoded(event, STRUCTURED), PLAIN, None)
    first = module.decode(carried(name, record))

    assert first.event.version == old[0]
    assert module.encode(first, PLAIN, None) == record


A: tuple[Header, ...] = (
    ("CE-CloudEventsVersion", b'"0.1"'), ("CE-EventID", b'"1"'), ("CE-Source", b'"/s"'), ("CE-EventType", b'"t"'),
)  # fmt: skip


@on_each_broker
@pytest.mark.parametrize("fold", [str, str.lower, str.upper])
def test_headers_of_0_1_are_known_in_any_case(name: str, fold: type[str]) -> None:
    """3.3 A; and the value may lack its quotes, as in the seed's own example."""
    bare = tuple((fold(header), (value or b"").strip(b'"')) for header, value in A)
    module = MODULES[name]

    for headers in (bare, tuple((fold(header), value) for header, value in A)):
        event = module.decode(Record(None, (*headers, (fold("CE-X-MyExt"), b"5")), b"x")).event
        assert (event.version, event.attributes) == ("0.1", GOOD | {"myext": "5"})
        assert event.types == {"myext": AttributeType.INTEGER}


@on_each_broker
def test_extensions_of_0_1_keep_their_case(name: str) -> None:
    """P5, V1: ``CE-X-MyExt`` comes back as ``CE-X-MyExt``, and quotes as quotes."""
    small = "CE-X-O" if name == "pulsar" else "CE-X-o"  # which has no small ones
    headers = (*A, ("CE-EventTypeVersion", b'"2"'), ("CE-X-MyExt", b'"5"'), (small, b'{"a":1}'))
    module = MODULES[name]
    decoded = module.decode(Record(None, headers, b"x"), module.STRICT)

    assert module.encode(decoded, PLAIN, None).headers == headers


def test_an_extension_of_0_1_has_a_capital_on_pulsar_alone() -> None:
    """P5, in 3.1.2: ``testExtension`` maps to ``CE-X-TestExtension``, and back."""
    document = (
        b'{"cloudEventsVersion":"0.1","eventID":"1","source":"/s","eventType":"t",'
        b'"extensions":{"example":"v","testExtension":"w"}}'
    )
    event = read_event(document)
    record = pulsar.encode(Decoded(event, BINARY), PLAIN, None)

    assert record.headers[len(A) :] == (("CE-X-Example", b'"v"'), ("CE-X-TestExtension", b'"w"'))
    for leniency in (pulsar.LIBERAL, pulsar.STRICT):
        assert pulsar.decode(record, leniency).event == event


def test_pulsar_reads_both_names_of_the_schema_and_writes_the_specification_s() -> None:
    """P5 against 0.1: ``schemaURI`` is in the binding's example, ``schemaURL`` in the specification."""
    for own in ("CE-SchemaURI", "CE-SchemaURL", "ce-schemauri"):
        decoded = pulsar.decode(Record(None, (*A, (own, b'"urn:a"')), b"x"))
        assert decoded.event.attributes["dataschema"] == "urn:a"
        assert ("CE-SchemaURL", b'"urn:a"') in pulsar.encode(decoded, PLAIN, None).headers
    both = (("CE-SchemaURI", b'"urn:a"'), ("CE-SchemaURL", b'"urn:b"'))
    with pytest.raises(InvalidEvent, match="given twice"):
        pulsar.decode(Record(None, (*A, *both), b"x"))


@pytest.mark.parametrize("version", ["0.2", "0.3"])
def test_attributes_of_older_versions_have_names_of_their_own_on_pulsar(version: str) -> None:
    """P5: what the version calls core is under ``CE-``, all else, Maps too, under ``CE-X-``."""
    document = (
        b'{"specversion":"%b","id":"1","source":"/s","type":"t","schemaurl":"/r","m":{"k":"v"}}'
    )
    event = read_event(document % version.encode())
    record = pulsar.encode(Decoded(event, BINARY), PLAIN, None)

    assert [header for header, _ in record.headers] == [
        "CE-Specversion", "CE-Id", "CE-Source", "CE-Type", "CE-Schemaurl", "CE-X-M-k",
    ]  # fmt: skip
    assert pulsar.decode(record, pulsar.STRICT).event.attributes["m"] == '{"k":"v"}'


@on_each_broker
@pytest.mark.parametrize(
    "document",
    [
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}',
        b'{"specversion":"0.3","id":"1","source":"/s","type":"t"}',
        b'{"cloudEventsVersion":"0.1","eventID":"1","source":"/s","eventType":"t"}',
    ],
)
def test_a_document_without_a_content_type_is_recognised_in_every_shape(
    name: str, document: bytes
) -> None:
    """4.3, 4.6 step 5: the Pulsar binding's structured example has no property at all."""
    module = MODULES[name]
    record = Record(None, (("trace", None),), document)

    decoded = module.decode(record)
    assert (decoded.mode, decoded.event.attributes) == (STRUCTURED, GOOD)
    assert decoded.foreign == (("trace", None),)
    with pytest.raises(module.NotACloudEvent):
        module.decode(record, replace(module.LIBERAL, sniff=False))


@on_each_broker
def test_a_route_may_fix_the_version(name: str) -> None:
    """3.3: what came as 0.3 leaves as 1.0, its document written anew."""
    document = b'{"specversion":"0.3","id":"1","source":"/s","type":"t","data":1.10}'
    decoded = Decoded(read_event(document), STRUCTURED, document, "application/cloudevents+json")
    module = MODULES[name]
    for mode in ("binary", "structured", "as_received"):
        record = module.encode(decoded, EncodeOptions(mode=mode, version="1.0"), None)
        event = module.decode(record).event
        assert (event.version, event.data) == ("1.0", b"1.10")


# Foreign headers (I3)

FOREIGN: tuple[Header, ...] = (("traceparent", b"00-1-2-01"), ("x-app", b"\xff"), ("cx", b"1"))
OWN_NAMES = [
    "ce_id",
    "CE_Other",
    "ce-id",
    "Content-Type",
    "CE-CloudEventsVersion",
    "CE-X-Foo",
    "ce_",
]


@on_each_broker
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_foreign_headers_come_along_after_the_event_s_own(name: str, mode: str) -> None:
    """I3: in either mode, in order, and in no attribute."""
    module = MODULES[name]
    decoded = Decoded(CloudEvent(GOOD, b"x"), BINARY, foreign=FOREIGN)
    record = module.encode(decoded, EncodeOptions(mode=mode), None)

    assert record.headers[-3:] == FOREIGN
    back = module.decode(record)
    assert (back.event.attributes, back.foreign) == (GOOD, FOREIGN)


@on_each_broker
def test_nulls_and_repeats_of_foreign_headers_are_kept(name: str) -> None:
    """Legal in Kafka; the order of repeats may mean something."""
    module = MODULES[name]
    odd: tuple[Header, ...] = (("t", b"1"), ("n", None), ("t", b"2"), ("t", b"1"))
    record = module.encode(Decoded(CloudEvent(GOOD), BINARY, foreign=odd), PLAIN, None)

    assert module.decode(record).foreign == odd


@on_each_broker
@pytest.mark.parametrize("own", OWN_NAMES)
def test_a_foreign_header_never_passes_for_the_event_s_own(name: str, own: str) -> None:
    """I3: it is written under a prefix, and read without it again."""
    module = MODULES[name]
    for foreign in ((own, b"forged"), (APART + own, b"forged")):
        decoded = Decoded(CloudEvent(GOOD), BINARY, foreign=(foreign,))
        record = module.encode(decoded, PLAIN, None)
        back = module.decode(record)
        assert (back.event.attributes, back.foreign) == (GOOD, (foreign,))


@given(
    NAMES,
    st.lists(
        st.tuples(
            st.builds(str.__add__, st.sampled_from(["", APART, APART * 2]), st.sampled_from([*OWN_NAMES, "t", "x-foreign-t", "cloudEvents:id", "id", "content_type", amqp_table.KEY_HEADER, pulsar_properties.KEY_ENCODING]) | st.text(max_size=4)),
            st.none() | st.binary(max_size=3),
        ),
        max_size=4,
    ),
    st.sampled_from(list(VERSIONS)),
    st.sampled_from(["binary", "structured"]),
)  # fmt: skip
def test_any_foreign_headers_survive_beside_any_event(
    name: str, foreign: list[Header], version: str, mode: str
) -> None:
    """I3, trap 15: whatever their names, they neither change the event nor are changed."""
    module = MODULES[name]
    event = as_version(CloudEvent(GOOD | {"ext": "v"}), version)
    record = module.encode(
        Decoded(event, BINARY, foreign=tuple(foreign)), EncodeOptions(mode=mode), None
    )
    back = module.decode(record)

    assert back.event.attributes == event.attributes
    assert back.foreign == tuple(foreign)


def test_names_of_ours_are_not_taken_from_others() -> None:
    """Design: the record key travels in a header; a foreign one of that name is no key."""
    for name, ours in (
        ("rabbitmq", amqp_table.KEY_HEADER),
        ("pulsar", pulsar_properties.KEY_ENCODING),
    ):
        decoded = Decoded(CloudEvent(GOOD), BINARY, foreign=((ours, b"base64"),))
        record = carried(name, MODULES[name].encode(decoded, PLAIN, b"a2V5"))
        assert (record.key, MODULES[name].decode(record).foreign) == (b"a2V5", decoded.foreign)


def test_foreign_names_too_long_for_amqp_stay_behind() -> None:
    """The bound of AMQP's short strings: the event goes on without them."""
    foreign = (("é" * 128, b"1"), ("t", b"2"))
    record = rabbitmq.encode(Decoded(CloudEvent(GOOD), BINARY, foreign=foreign), PLAIN, None)

    assert rabbitmq.decode(record).foreign == foreign[1:]


# Documents


@on_each_broker
@pytest.mark.parametrize("body", [None, b""])
def test_a_document_has_a_body(name: str, body: bytes | None) -> None:
    """K17, R5, P4: one code, each binding's own clause."""
    rule = {"kafka": "K17", "rabbitmq": "R5", "pulsar": "P4"}[name]
    with pytest.raises(InvalidEvent) as refusal:
        MODULES[name].decode(typed(name, Record(None, (), body), "application/cloudevents+json"))
    assert [(fault.code, fault.rule) for fault in refusal.value.faults] == [("no-document", rule)]


@on_each_broker
@pytest.mark.parametrize("media_type", list(FORMATS))
@pytest.mark.parametrize("fold", [str, str.upper])
def test_every_format_is_read_and_written(name: str, media_type: str, fold: type[str]) -> None:
    """K3, R2, P2: JSON at the least; and a document goes on byte for byte."""
    module = MODULES[name]
    document = FORMATS[media_type].write_event(CloudEvent(GOOD, b"\0\xff"))
    declared = fold(media_type) + "; a=b"
    decoded = module.decode(typed(name, Record(None, (), document), declared))

    assert (decoded.event.attributes, decoded.event.data) == (GOOD, b"\0\xff")
    written = module.encode(decoded, EncodeOptions(mode="as_received"), None)
    assert (written.body, content_type_in(name, written)) == (document, declared)
    as_json = module.encode(decoded, EncodeOptions(mode="structured", format="json"), None)
    assert read_event(as_json.body or b"").data == b"\0\xff"


OPAQUE = [
    "application/cloudevents+cbor; a=B", "application/cloudevents2", "Application/CloudEvents+", "application/cloudevents-batch+avro",
    "application/cloudevents-batch+json",
]  # fmt: skip


@on_each_broker
@pytest.mark.parametrize("media_type", OPAQUE)
@pytest.mark.parametrize("mode", ["binary", "structured", "as_received"])
def test_a_document_that_nobody_reads_goes_on_byte_for_byte(
    name: str, media_type: str, mode: str
) -> None:
    """4.7, K5, trap 13: with its parameters, and with what mirrored headers told."""
    module = MODULES[name]
    mirrored = module.encode(Decoded(CloudEvent(GOOD), BINARY), PLAIN, None).headers
    for headers, attributes in (((), {}), (mirrored, GOOD)):
        record = typed(name, Record(None, (*headers, ("trace", b"1")), b"\0\xff"), media_type)
        decoded = module.decode(record)
        assert decoded.opaque
        assert (decoded.event.attributes, decoded.event.data) == (attributes, None)
        written = module.encode(decoded, EncodeOptions(mode=mode), None)
        assert (written.body, content_type_in(name, written)) == (b"\0\xff", media_type)
        assert module.decode(written) == decoded


@on_each_broker
def test_a_document_that_nobody_reads_is_not_turned_into_another_format(name: str) -> None:
    """4.7: a route that promises JSON refuses it."""
    module = MODULES[name]
    decoded = module.decode(typed(name, Record(None, (), b"x"), OPAQUE[0]))

    for mode in ("structured", "as_received"):
        with pytest.raises(SenderError) as refusal:
            module.encode(decoded, EncodeOptions(mode=mode, format="json"), None)
        assert (refusal.value.status, refusal.value.code) == (415, "unsupported-format")
    assert module.encode(decoded, EncodeOptions(mode="binary", format="json"), None).body == b"x"


@on_each_broker
@pytest.mark.parametrize("suffix", ["+xml", "-batch+xml", "+XML; charset=utf-8"])
def test_xml_is_refused(name: str, suffix: str) -> None:
    """Issue 4.5: with its reason."""
    with pytest.raises(SenderError, match="XML is not read") as refusal:
        MODULES[name].decode(
            typed(name, Record(None, (), b"<e/>"), f"application/cloudevents{suffix}")
        )
    assert (refusal.value.status, refusal.value.code) == (415, "unsupported-format")


@on_each_broker
def test_a_family_name_without_format_is_tried_as_json(name: str) -> None:
    """4.6 step 2: else it is passed on."""
    module = MODULES[name]
    document = write_event(CloudEvent(GOOD))

    for body in (document, b" \n" + document, b"\xef\xbb\xbf" + document):
        decoded = module.decode(typed(name, Record(None, (), body), "application/cloudevents"))
        assert decoded.event.attributes == GOOD
    assert module.decode(
        typed(name, Record(None, (), b"\x0a\x01"), "application/cloudevents")
    ).opaque
    with pytest.raises(InvalidEvent):
        module.decode(typed(name, Record(None, (), b"{"), "application/cloudevents"))


@on_each_broker
def test_mirrored_headers_that_no_attribute_can_be_are_no_matter(name: str) -> None:
    """4.7: nothing is judged; and what is written is still a message."""
    module = MODULES[name]
    own = module.encode(Decoded(CloudEvent(GOOD), BINARY), PLAIN, None).headers
    bad = tuple((header, value) for header, _ in own for value in (b"a\0b", b"\xff", None))
    decoded = module.decode(typed(name, Record(None, bad, b"x"), OPAQUE[0]))

    assert decoded.event.attributes == {}
    assert module.encode(decoded, PLAIN, None).body == b"x"


# The table


@given(events(), st.sampled_from(list(BINDINGS)), st.sampled_from(["binary", "structured"]))
def test_every_kind_of_broker_has_its_binding(event: CloudEvent, kind: str, mode: str) -> None:
    """Routing and workers choose by the kind of the broker."""
    binding = BINDINGS[kind]
    back = binding.decode(
        binding.encode(Decoded(event, BINARY), EncodeOptions(mode=mode), b"k")
    ).event

    assert (back.id, back.source, back.data or b"") == (event.id, event.source, event.data or b"")


_header_names = st.builds(
    str.__add__,
    st.sampled_from(["ce_", "ce-", "CE-", "CE-X-", "cloudEvents:", "", APART]),
    st.sampled_from([*GOOD, "time", "ext", "CloudEventsVersion", "EventID", "Source", "EventType", "m-a", "datacontenttype", "ContentType", "Specversion"])
    | st.text(max_size=3),
) | st.sampled_from(["content-type", "content_type", "Content-Type"])  # fmt: skip
_header_values = st.none() | st.binary(max_size=4) | st.sampled_from(
    [b"1.0", b'"1.0"', b"0.1", b'"0.2"', b"0.3", b"1.0-rc1", b"/", b"5", b"{}", b"a/b",
     b"application/cloudevents+json", b"application/cloudevents+cbor", b"application/cloudevents"]
)  # fmt: skip


@given(
    NAMES,
    st.lists(st.tuples(_header_names, _header_values), max_size=10),
    st.none() | st.binary(max_size=4) | st.just(b'{"specversion":"1.0","id":"1","source":"/","type":"t"}'),
    st.booleans(),
)  # fmt: skip
def test_a_record_is_read_or_refused_as_the_sender_s_fault(
    name: str, headers: list[Header], body: bytes | None, strict: bool
) -> None:
    """Whatever a broker brings: our own error with its places, or a valid event that can go on."""
    module = MODULES[name]
    decode: Callable[..., Decoded] = module.decode
    try:
        decoded = decode(
            Record(None, tuple(headers), body), module.STRICT if strict else module.LIBERAL
        )
    except SenderError as error:
        refused_with(error)
        return
    assert decoded.opaque or faults_of(decoded.event.attributes, str) == []
    for target in MODULES.values():
        for mode in ("binary", "structured"):
            again = target.decode(target.encode(decoded, EncodeOptions(mode=mode), None))
            assert again.event.attributes == as_told(decoded.event)
            assert again.foreign == decoded.foreign


@on_each_broker
def test_an_ordinary_event_takes_the_hot_path(name: str) -> None:
    """Whole budget of an event; foreign headers do not spoil it."""
    module = MODULES[name]
    event = CloudEvent(GOOD | {"myext": "v", "datacontenttype": "a/b"}, b"x")
    written = module.encode(Decoded(event, BINARY), PLAIN, None)

    hot = module._read_plainly(replace(written, headers=(*written.headers, ("trace", b"\xff"))))
    assert hot is not None
    assert (hot.event, hot.foreign) == (event, (("trace", b"\xff"),))


@given(NAMES, events(), st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=2))))
def test_the_hot_reader_agrees_with_the_liberal_and_the_strict_one(
    name: str, event: CloudEvent, others: list[Header]
) -> None:
    """Else what an event is would depend on whether its neighbours are ASCII."""
    module = MODULES[name]
    written = module.encode(Decoded(event, BINARY), PLAIN, None)
    message = replace(written, headers=(*written.headers, *others))
    hot = module._read_plainly(message)

    if hot is not None:  # it steps aside where anything is out of the ordinary
        assert hot == read(message, module.profile(module.LIBERAL))
        assert hot == read(message, module.profile(module.STRICT))
