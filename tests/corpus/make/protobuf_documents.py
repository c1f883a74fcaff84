"""Writes tests/corpus/protobuf: documents of the Protobuf format, each with what must come of it.

The bytes are made by the protobuf library from the published description of package
io.cloudevents.v1 (a map, a oneof, 32-bit integers), typed in here anew and sharing nothing with the
application. What that description cannot say, two alternatives at once for instance, is appended as
raw fields. Run it with ``PYTHONPATH=tests/support python tests/corpus/make/protobuf_documents.py``;
a test holds the files to it.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, timestamp_pb2
from google.protobuf.message_factory import GetMessageClass

from corpus_making import GOOD, Writer, base64_of, event

TYPE = descriptor_pb2.FieldDescriptorProto
BATCH = "application/cloudevents-batch+protobuf"
PACKAGE = "io.cloudevents.v1"
FIELDS = {"specversion": "spec_version", "id": "id", "source": "source", "type": "type"}


def _published() -> tuple[Any, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="published.proto",
        package=PACKAGE,
        syntax="proto3",
        dependency=["google/protobuf/any.proto", "google/protobuf/timestamp.proto"],
    )
    event_type = file.message_type.add(name="CloudEvent")
    for number, name in enumerate(("id", "source", "spec_version", "type"), 1):
        event_type.field.add(name=name, number=number, type=TYPE.TYPE_STRING, label=1)
    entry = event_type.nested_type.add(name="AttributesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=TYPE.TYPE_STRING, label=1)
    value = f".{PACKAGE}.CloudEvent.CloudEventAttributeValue"
    entry.field.add(name="value", number=2, type=TYPE.TYPE_MESSAGE, type_name=value, label=1)
    attributes = f".{PACKAGE}.CloudEvent.AttributesEntry"
    event_type.field.add(
        name="attributes", number=5, type=TYPE.TYPE_MESSAGE, type_name=attributes, label=3
    )
    event_type.oneof_decl.add(name="data")
    for number, name, kind in (
        (6, "binary_data", TYPE.TYPE_BYTES),
        (7, "text_data", TYPE.TYPE_STRING),
        (8, "proto_data", TYPE.TYPE_MESSAGE),
    ):
        field = event_type.field.add(name=name, number=number, type=kind, label=1, oneof_index=0)
        if kind == TYPE.TYPE_MESSAGE:
            field.type_name = ".google.protobuf.Any"
    value_type = event_type.nested_type.add(name="CloudEventAttributeValue")
    value_type.oneof_decl.add(name="attr")
    for number, (name, kind) in enumerate(
        {
            "ce_boolean": TYPE.TYPE_BOOL,
            "ce_integer": TYPE.TYPE_INT32,
            "ce_string": TYPE.TYPE_STRING,
            "ce_bytes": TYPE.TYPE_BYTES,
            "ce_uri": TYPE.TYPE_STRING,
            "ce_uri_ref": TYPE.TYPE_STRING,
            "ce_timestamp": TYPE.TYPE_MESSAGE,
        }.items(),
        1,
    ):
        field = value_type.field.add(name=name, number=number, type=kind, label=1, oneof_index=0)
        if kind == TYPE.TYPE_MESSAGE:
            field.type_name = ".google.protobuf.Timestamp"
    batch_type = file.message_type.add(name="CloudEventBatch")
    batch_type.field.add(
        name="events",
        number=1,
        type=TYPE.TYPE_MESSAGE,
        type_name=f".{PACKAGE}.CloudEvent",
        label=3,
    )
    pool = descriptor_pool.DescriptorPool()
    for module in (any_pb2, timestamp_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    found = [
        pool.FindMessageTypeByName(f"{PACKAGE}.{n}") for n in ("CloudEvent", "CloudEventBatch")
    ]
    return GetMessageClass(found[0]), GetMessageClass(found[1])


CloudEvent, CloudEventBatch = _published()


def document(drop: str = "", data: Any = None, **attributes: Any) -> bytes:
    """The good event without ``drop``. A required attribute is text, any other a pair of field and
    value (several pairs would exclude each other); ``data`` is such a pair too."""
    message = CloudEvent()
    for name, text in GOOD.items():
        if name not in drop.split():
            setattr(message, FIELDS[name], attributes.pop(name, text))
    for name, pair in attributes.items():
        value = message.attributes[name]
        if pair is not None:
            _fill(value, *pair)
    if data is not None:
        _fill(message, *data)
    return bytes(message.SerializeToString(deterministic=True))


def _fill(message: Any, field: str, value: Any) -> None:
    if isinstance(value, tuple):  # a Timestamp, or an Any
        part = getattr(message, field)
        part.SetInParent()
        names = ("seconds", "nanos") if field == "ce_timestamp" else ("type_url", "value")
        for name, each in zip(names, value, strict=True):
            setattr(part, name, each)
    else:
        setattr(message, field, value)


def batch(*documents: bytes) -> bytes:
    return b"".join(raw(1, each) for each in documents)


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def raw(number: int, value: bytes | int) -> bytes:
    """One field as it is on the wire."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def entry(name: bytes, value: bytes) -> bytes:
    """One entry of the attributes, of raw fields."""
    return raw(5, raw(1, name) + raw(2, value))


W = Writer("protobuf", "application/cloudevents+protobuf")
TEXT = "ce_string"


def valid_attributes() -> None:
    W.file("attributes")
    ok, at = W.events, 1_772_353_800  # 2026-03-01T08:30:00Z
    ok("smallest-event", "core 1.1", "Four fields are a whole event.", document(), event())
    ok(
        "every-core-attribute", "core 1.1", "Optional attributes are entries of the map, each of its type.",
        document(
            datacontenttype=(TEXT, "text/plain"), dataschema=("ce_uri", "https://example.org/cloth"),
            subject=(TEXT, "bolt 9"), time=("ce_timestamp", (at, 0)),
        ),
        event(
            datacontenttype="text/plain", dataschema="https://example.org/cloth", subject="bolt 9",
            time="2026-03-01T08:30:00Z",
        ),
    )  # fmt: skip
    ok(
        "every-type", "core 1.3", "Each alternative of a value becomes its canonical text.",
        document(
            n=("ce_integer", 10), flag=("ce_boolean", True), word=(TEXT, "text"),
            bits=("ce_bytes", b"Ma"), uri=("ce_uri", "https://example.org"),
            ref=("ce_uri_ref", "//host/path"), at=("ce_timestamp", (1_680_275_520, 0)),
        ),
        event(
            types={"n": "Integer", "flag": "Boolean"}, n="10", flag="true", word="text", bits="TWE=",
            uri="https://example.org", ref="//host/path", at="2023-03-31T15:12:00Z",
        ),
    )  # fmt: skip
    W.any_source(document)
    for name, number in (
        ("largest", 2**31 - 1),
        ("smallest", -(2**31)),
        ("zero", 0),
        ("minus-one", -1),
    ):
        ok(
            f"{name}-integer", "core 1.3", "An Integer has 32 bits; zero is there because its field is.",
            document(n=("ce_integer", number)), event(types={"n": "Integer"}, n=str(number)),
        )  # fmt: skip
    ok(
        "false",
        "core 1.3",
        "false is there because its field is.",
        document(flag=("ce_boolean", False)),
        event(types={"flag": "Boolean"}, flag="false"),
    )
    ok(
        "empty-text",
        "core 1.3",
        "An extension may be empty.",
        document(word=(TEXT, "")),
        event(word=""),
    )
    ok(
        "empty-bytes",
        "core 1.3",
        "No bytes are the empty text of base64.",
        document(bits=("ce_bytes", b"")),
        event(bits=""),
    )
    ok(
        "empty-reference",
        "core 1.3",
        "The empty text is a URI reference (RFC 3986 4.2).",
        document(ref=("ce_uri_ref", "")),
        event(ref=""),
    )
    ok(
        "bytes-of-every-kind",
        "core 1.3",
        "Binary becomes standard base64.",
        document(bits=("ce_bytes", b"\xfb\xff\x00")),
        event(bits="+/8A"),
    )
    ok(
        "unicode",
        "core 1.3",
        "Text is Unicode.",
        document(subject=(TEXT, "Flügel 🧵")),
        event(subject="Flügel 🧵"),
    )
    ok(
        "name-of-one-character",
        "core 1.2",
        "One character is a name.",
        document(x=(TEXT, "1")),
        event(x="1"),
    )
    ok(
        "name-of-forty-characters",
        "core 1.2",
        "Twenty is advice, not a bound.",
        document(**{"a" * 40: (TEXT, "1")}),
        event(**{"a" * 40: "1"}),
    )
    ok(
        "name-beginning-with-a-digit",
        "core 1.2",
        "1.0 allows it.",
        document(**{"2fa": (TEXT, "1")}),
        event(**{"2fa": "1"}),
    )
    ok(
        "schema-as-text",
        "core 1.3",
        "A URI may be given as its canonical text.",
        document(dataschema=(TEXT, "urn:cloth")),
        event(dataschema="urn:cloth"),
    )
    ok(
        "time-as-text",
        "core 1.3",
        "A Timestamp may be given as its canonical text.",
        document(time=(TEXT, "2026-03-01T08:30:00Z")),
        event(time="2026-03-01T08:30:00Z"),
    )
    ok(
        "time-as-text-with-offset", "core 1.3", "Kept as it is; the format's own type has UTC only.",
        document(time=(TEXT, "2026-03-01T14:00:00+05:30")), event(time="2026-03-01T14:00:00+05:30"),
        again={"time": "2026-03-01T08:30:00Z"},
    )  # fmt: skip
    ok(
        "leap-second-as-text", "core 1.3", "A leap second is RFC 3339, but no Protobuf timestamp: it is refused there, not changed.",
        document(time=(TEXT, "2016-12-31T23:59:60Z")), event(time="2016-12-31T23:59:60Z"), again="refused",
    )  # fmt: skip
    ok(
        "picoseconds-as-text", "core 1.3", "Finer than nanoseconds is RFC 3339, but no Protobuf timestamp.",
        document(time=(TEXT, "2026-03-01T08:30:00.123456789012Z")), event(time="2026-03-01T08:30:00.123456789012Z"), again="refused",
    )  # fmt: skip
    for name, moment, text in (
        ("nanoseconds", (at, 123_456_789), "2026-03-01T08:30:00.123456789Z"),
        ("half-a-second", (at, 500_000_000), "2026-03-01T08:30:00.5Z"),
        ("the-epoch", (0, 0), "1970-01-01T00:00:00Z"),
        ("before-the-epoch", (-1, 1), "1969-12-31T23:59:59.000000001Z"),
        ("the-first-second", (-62_135_596_800, 0), "0001-01-01T00:00:00Z"),
        ("the-last-second", (253_402_300_799, 999_999_999), "9999-12-31T23:59:59.999999999Z"),
        ("a-leap-day", (1_709_164_800, 0), "2024-02-29T00:00:00Z"),
    ):
        ok(
            f"time-{name}",
            "core 1.3",
            "A timestamp becomes RFC 3339 in UTC.",
            document(time=("ce_timestamp", moment)),
            event(time=text),
        )
    ok(
        "unknown-field",
        "I8",
        "A field that this version knows not is no fault.",
        document() + raw(99, b"later"),
        event(),
    )
    ok(
        "unknown-field-in-a-value",
        "I8",
        "Nor is one beside a value.",
        document() + entry(b"word", raw(3, b"a") + raw(99, 1)),
        event(word="a"),
    )
    ok(
        "fields-in-any-order",
        "core 1.1",
        "Order of fields means nothing.",
        raw(4, GOOD["type"].encode())
        + raw(3, b"1.0")
        + raw(2, GOOD["source"].encode())
        + raw(1, b"k-5"),
        event(),
    )


def valid_data() -> None:
    W.file("data")
    ok, mt = W.events, "datacontenttype"
    ok(
        "bytes",
        "Protobuf 3",
        "binary_data is the payload.",
        document(data=("binary_data", b"\x00\xff")),
        event(base64_of(b"\x00\xff")),
    )
    ok(
        "no-bytes",
        "Protobuf 3",
        "No bytes are data, which is not no data.",
        document(data=("binary_data", b"")),
        event(base64_of(b"")),
    )
    ok(
        "no-data",
        "Protobuf 3",
        "No field of data is no data.",
        document(**{mt: (TEXT, "text/plain")}),
        event(**{mt: "text/plain"}),
    )
    ok(
        "text",
        "Protobuf 3",
        "text_data is text.",
        document(data=("text_data", "linen"), **{mt: (TEXT, "text/plain")}),
        event({"text": "linen"}, **{mt: "text/plain"}),
    )
    ok(
        "text-without-a-type",
        "Protobuf 3",
        "Text is text without a type too, and no type is made up.",
        document(data=("text_data", "linen")),
        event({"text": "linen"}),
    )
    ok(
        "empty-text-data",
        "Protobuf 3",
        "Empty text is data.",
        document(data=("text_data", ""), **{mt: (TEXT, "text/plain")}),
        event({"text": ""}, **{mt: "text/plain"}),
    )
    ok(
        "text-in-latin-1",
        "Protobuf 3, J7",
        "Text is encoded as its type says.",
        document(data=("text_data", "Tüll"), **{mt: (TEXT, "text/plain; charset=iso-8859-1")}),
        event({"base64": "VPxsbA==", "form": "text"}, **{mt: "text/plain; charset=iso-8859-1"}),
    )
    ok(
        "json-as-text",
        "Protobuf 3, J6",
        "JSON is text; its bytes are the payload, to the digit.",
        document(data=("text_data", '{"n": 1.10}'), **{mt: (TEXT, "application/json")}),
        event({"text": '{"n": 1.10}', "form": "opaque"}, **{mt: "application/json"}),
    )
    ok(
        "json-as-bytes",
        "Protobuf 3",
        "JSON may be bytes.",
        document(data=("binary_data", b"[1]"), **{mt: (TEXT, "application/json")}),
        event(base64_of(b"[1]"), **{mt: "application/json"}),
    )
    ok(
        "json-null-as-text",
        "J9",
        "null is a payload.",
        document(data=("text_data", "null"), **{mt: (TEXT, "application/json")}),
        event({"text": "null", "form": "opaque"}, **{mt: "application/json"}),
    )
    ok(
        "bytes-that-are-no-utf-8-under-text",
        "Protobuf 3",
        "Bytes are not looked at.",
        document(data=("binary_data", b"\xc0\xa0"), **{mt: (TEXT, "text/plain")}),
        event(base64_of(b"\xc0\xa0"), **{mt: "text/plain"}),
    )
    for name, url, schema in (
        (
            "with-a-host",
            "type.googleapis.com/org.example.Bolt",
            "https://type.googleapis.com/org.example.Bolt",
        ),
        ("with-a-scheme", "https://types.example.org/Bolt", "https://types.example.org/Bolt"),
    ):
        ok(
            f"message-{name}", "Protobuf 3", "A message is its bytes, its type URL the schema.",
            document(data=("proto_data", (url, b"\x08\x01"))),
            event(base64_of(b"\x08\x01"), datacontenttype="application/protobuf", dataschema=schema),
        )  # fmt: skip
    ok(
        "message-that-says-its-type", "Protobuf 3", "The attributes may say the same.",
        document(
            data=("proto_data", ("types.example.org/Bolt", b"\x08\x01")),
            datacontenttype=(TEXT, "application/protobuf"), dataschema=("ce_uri", "https://types.example.org/Bolt"),
        ),
        event(base64_of(b"\x08\x01"), datacontenttype="application/protobuf", dataschema="https://types.example.org/Bolt"),
    )  # fmt: skip
    ok(
        "empty-message",
        "Protobuf 3",
        "A message without fields is no bytes, and is data.",
        document(data=("proto_data", ("types.example.org/Empty", b""))),
        event(
            base64_of(b""),
            datacontenttype="application/protobuf",
            dataschema="https://types.example.org/Empty",
        ),
    )


def invalid_attributes() -> None:
    W.file("invalid")
    bad = W.faults
    for name in GOOD:
        W.lacking(name, document)
        bad(
            f"empty-{name}",
            "core 1.1",
            f"An empty {name} is none: in this format they are the same bytes.",
            document(drop=name)
            + raw({"id": 1, "source": 2, "specversion": 3, "type": 4}[name], b""),
            f"missing-attribute@/{name}",
        )
    bad(
        "empty-document",
        "core 1.1",
        "No bytes are an event that lacks everything.",
        b"",
        *(f"missing-attribute@/{name}" for name in GOOD),
    )
    for version in ("0.9", "0.3", "1.1"):
        W.other_version(version, document)
    for name in ("subject", "datacontenttype", "dataschema", "time"):
        field = "ce_uri" if name == "dataschema" else TEXT
        bad(
            f"empty-{name}",
            "core 1.1",
            f"{name} is left out or filled.",
            document(**{name: (field, "")}),
            f"empty-attribute@/{name}",
        )
        bad(
            f"{name}-is-an-integer",
            "core 1.1",
            f"{name} is no Integer.",
            document(**{name: ("ce_integer", 5)}),
            f"wrong-type@/{name}",
        )
    bad(
        "subject-is-a-boolean",
        "core 1.1",
        "subject is a String.",
        document(subject=("ce_boolean", True)),
        "wrong-type@/subject",
    )
    bad(
        "subject-is-bytes",
        "core 1.1",
        "subject is a String.",
        document(subject=("ce_bytes", b"a")),
        "wrong-type@/subject",
    )
    bad(
        "bad-content-type",
        "core 1.1",
        "No media type.",
        document(datacontenttype=(TEXT, "xyz")),
        "bad-media-type@/datacontenttype",
    )
    bad(
        "bad-time",
        "core 1.3",
        "Text that is no timestamp.",
        document(time=(TEXT, "noon")),
        "bad-timestamp@/time",
    )
    bad(
        "relative-schema",
        "core 1.1",
        "dataschema is absolute.",
        document(dataschema=("ce_uri", "/cloth")),
        "bad-uri@/dataschema",
    )
    W.bad_source(document)
    bad(
        "extension-that-is-no-uri",
        "core 1.3",
        "A value of the type URI is an absolute URI.",
        document(link=("ce_uri", "not a uri")),
        "bad-uri@/link",
    )
    bad(
        "extension-that-is-a-relative-uri",
        "core 1.3",
        "A value of the type URI is an absolute URI.",
        document(link=("ce_uri", "/cloth")),
        "bad-uri@/link",
    )
    bad(
        "extension-that-is-no-reference",
        "core 1.3",
        "A value of the type URI-reference is one.",
        document(link=("ce_uri_ref", "a b")),
        "bad-uri-reference@/link",
    )
    for name, moment in (
        ("too-early", (-62_135_596_801, 0)),
        ("too-late", (253_402_300_800, 0)),
        ("negative-nanoseconds", (0, -1)),
        ("too-many-nanoseconds", (0, 10**9)),
    ):
        bad(
            f"time-{name}",
            "core 1.3",
            "A Protobuf timestamp holds the years 1 to 9999, and nanoseconds of one second.",
            document(time=("ce_timestamp", moment)),
            "bad-timestamp@/time",
        )
    for name, label in (
        ("Crew", "upper-case"),
        ("my.crew", "dot"),
        ("my-crew", "hyphen"),
        ("my_crew", "underscore"),
        ("", "no-character"),
        ("data", "data"),
        ("é", "accent"),
    ):
        bad(
            f"name-with-{label}",
            "core 1.2",
            "Names are a to z and 0 to 9.",
            document() + entry(name.encode(), raw(3, b"a")),
            f"bad-attribute-name@/{name}",
        )
    bad(
        "value-without-a-type",
        "Protobuf 2.4",
        "An entry has a value.",
        document(crew=None),
        "not-one-value@/crew",
    )
    bad(
        "bad-name-without-a-value",
        "Protobuf 2.4",
        "An entry has a value, whatever its name.",
        document(**{"My.Crew": None}),
        "not-one-value@/My.Crew",
    )
    bad(
        "value-of-two-types",
        "Protobuf 2.4",
        "Alternatives exclude each other; no last one wins.",
        document() + entry(b"crew", raw(3, b"a") + raw(2, 1)),
        "not-one-value@/crew",
    )
    bad(
        "entry-twice",
        "core 1.1",
        "At most once; no last one wins.",
        document(crew=(TEXT, "a")) + entry(b"crew", raw(3, b"b")),
        "duplicate-attribute@/crew",
    )
    bad(
        "id-among-the-entries",
        "core 1.1",
        "id has a field, and is there at most once.",
        document(id="k-5") + entry(b"id", raw(3, b"other")),
        "duplicate-attribute@/id",
    )
    for name, number in (
        ("two-to-the-31", 2**31),
        ("below-the-smallest", -(2**31) - 1),
        ("two-to-the-40", 2**40),
    ):
        bad(
            f"integer-{name}",
            "core 1.3",
            "An Integer has 32 bits; nothing is cut off.",
            document() + entry(b"n", raw(2, number)),
            "integer-out-of-range@/n",
        )
    for name, text in (
        ("control", "a\x07"),
        ("null", "\0"),
        ("delete", "\x7f"),
        ("next-line", "\x85"),
        ("noncharacter", "\ufffe"),
        ("last-noncharacter", "\U0010ffff"),
    ):
        bad(
            f"text-with-{name}",
            "core 1.3",
            "What no String may hold.",
            document(word=(TEXT, text)),
            "forbidden-character@/word",
        )
    bad(
        "every-fault",
        "core 1.1",
        "All at once.",
        document(drop="id", source="a b", time=("ce_integer", 1), Crew=(TEXT, "a"), link=None),
        "missing-attribute@/id",
        "bad-uri-reference@/source",
        "wrong-type@/time",
        "bad-attribute-name@/Crew",
        "not-one-value@/link",
    )
    bad(
        "too-many-attributes",
        "rule 8",
        "Attributes of one event are bounded.",
        document() + b"".join(entry(b"x%d" % i, raw(3, b"")) for i in range(1025)),
        "too-many-attributes",
    )


def invalid_bytes() -> None:
    W.file("bytes")
    bad, good = W.faults, document()
    bad("cut-short", "Protobuf 2", "The last field ends too early.", good[:-1], "bad-protobuf")
    bad("json-instead", "Protobuf 2", "JSON is no Protobuf.", b'{"id":"k-5"}', "bad-protobuf")
    bad(
        "length-beyond-the-end",
        "Protobuf 2",
        "A field longer than what is there.",
        good + b"\x0a\x7f",
        "bad-protobuf",
    )
    bad(
        "field-number-zero",
        "Protobuf 2",
        "There is no field 0.",
        good + b"\x02\x00",
        "bad-protobuf",
    )
    bad("group-left-open", "Protobuf 2", "A group that never ends.", good + b"\x0b", "bad-protobuf")
    bad(
        "endless-number",
        "Protobuf 2",
        "A number of more than ten bytes.",
        good + b"\x50" + b"\xff" * 11,
        "bad-protobuf",
    )
    bad(
        "text-not-utf-8",
        "Protobuf 2",
        "Strings are UTF-8.",
        document(drop="id") + raw(1, b"\xc0\xa0"),
        "bad-protobuf",
    )
    bad(
        "extension-not-utf-8",
        "Protobuf 2",
        "Strings are UTF-8.",
        good + entry(b"word", raw(3, b"\xff")),
        "bad-protobuf",
    )
    bad(
        "surrogate-in-text",
        "Protobuf 2",
        "Surrogates are not UTF-8.",
        good + entry(b"word", raw(3, b"\xed\xa0\x80")),
        "bad-protobuf",
    )
    bad(
        "number-in-place-of-the-id",
        "core 1.1",
        "A field of another wire type is another field.",
        document(drop="id") + raw(1, 5),
        "missing-attribute@/id",
    )
    bad(
        "two-kinds-of-data",
        "Protobuf 3",
        "They exclude each other; no last one wins.",
        document(data=("text_data", "a")) + raw(6, b"b"),
        "several-data@/data",
    )
    bad(
        "three-kinds-of-data",
        "Protobuf 3",
        "They exclude each other.",
        document(data=("text_data", "a")) + raw(6, b"b") + raw(8, raw(1, b"t/T")),
        "several-data@/data",
    )
    bad(
        "text-that-cannot-be-encoded",
        "Protobuf 3, J7",
        "Refused, not maimed.",
        document(data=("text_data", "€"), datacontenttype=(TEXT, "text/plain; charset=us-ascii")),
        "data-not-encodable@/data",
    )
    bad(
        "message-declared-as-text",
        "Protobuf 3",
        "A message is no text.",
        document(data=("proto_data", ("t/T", b"")), datacontenttype=(TEXT, "text/plain")),
        "data-not-as-declared@/data",
    )
    bad(
        "message-of-another-schema",
        "Protobuf 3",
        "Two names for its type.",
        document(data=("proto_data", ("t/T", b"")), dataschema=("ce_uri", "https://t/U")),
        "data-not-as-declared@/dataschema",
    )


def batches() -> None:
    W.file("batches")
    first, second = document(id="k-1"), document(id="k-2")
    full = document(
        id="k-2",
        subject=(TEXT, "bolt 9"),
        time=("ce_timestamp", (0, 0)),
        n=("ce_integer", 1),
        data=("binary_data", b"\0"),
    )
    full_event = event(
        base64_of(b"\0"),
        {"n": "Integer"},
        id="k-2",
        subject="bolt 9",
        time="1970-01-01T00:00:00Z",
        n="1",
    )

    def ok(name: str, shows: str, raw_batch: bytes, *events: Any) -> None:
        W.events(name, "Protobuf 4, H13", shows, raw_batch, *events, media_type=BATCH)

    def bad(name: str, rules: str, shows: str, raw_batch: bytes, *faults: str) -> None:
        W.faults(name, rules, shows, raw_batch, *faults, media_type=BATCH)

    ok("empty-batch", "No bytes are a batch of nothing.", b"")
    ok("batch-of-one", "One event.", batch(first), event(id="k-1"))
    ok("batch-of-two", "In their order.", batch(first, second), event(id="k-1"), event(id="k-2"))
    ok(
        "batch-of-equal-events",
        "Nothing is thrown away here.",
        batch(first, first),
        event(id="k-1"),
        event(id="k-1"),
    )
    ok(
        "batch-small-and-full",
        "Each has what it has.",
        batch(first, full),
        event(id="k-1"),
        full_event,
    )
    ok(
        "batch-with-an-unknown-field",
        "A field of a later version is no fault.",
        batch(first) + raw(9, 1),
        event(id="k-1"),
    )
    written = CloudEventBatch(events=[CloudEvent.FromString(full), CloudEvent.FromString(first)])
    ok(
        "batch-by-the-library",
        "As the library writes it.",
        bytes(written.SerializeToString(deterministic=True)),
        full_event,
        event(id="k-1"),
    )
    bad(
        "mixed-versions",
        "I6",
        "Another version than 1.0 has no Protobuf format, in a batch or alone.",
        batch(first, document(specversion="0.9")),
        "unsupported-specversion@/1/specversion",
    )
    bad(
        "one-bad-event",
        "core 1.1",
        "Nothing is taken when one is at fault.",
        batch(first, document(drop="id")),
        "missing-attribute@/1/id",
    )
    bad(
        "empty-event-in-a-batch",
        "core 1.1",
        "An event of no bytes lacks everything.",
        batch(b""),
        *(f"missing-attribute@/0/{name}" for name in GOOD),
    )
    bad(
        "two-bad-events",
        "core 1.1",
        "All are told.",
        batch(document(drop="id"), first, document(time=(TEXT, "noon"))),
        "missing-attribute@/0/id",
        "bad-timestamp@/2/time",
    )
    bad(
        "batch-cut-short",
        "Protobuf 4",
        "The last event ends too early.",
        batch(first)[:-1],
        "bad-protobuf",
    )
    bad(
        "element-that-is-no-event",
        "Protobuf 4",
        "Bytes that are no event.",
        batch(first, b"\x0a\x7f"),
        "bad-protobuf@/1",
    )


valid_attributes()
valid_data()
invalid_attributes()
invalid_bytes()
batches()

if __name__ == "__main__":
    W.write()
