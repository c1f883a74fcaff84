"""Writes tests/corpus/avro: documents of the Avro format, each with what must come of it.

The bytes are made by fastavro from the schema as published, typed in here anew and sharing nothing
with the application. What no writer writes, a name twice for instance, is put together by hand. Run
it with ``PYTHONPATH=tests/support python tests/corpus/make/avro_documents.py``; a test holds the
files to it.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro

from corpus_making import GOOD, Writer, base64_of, event

_INNER = ["null", "boolean", {"type": "map", "values": "Json"}, {"type": "array", "items": "Json"}, "double", "string"]  # fmt: skip
_JSON = {
    "type": "record",
    "name": "Json",
    "fields": [{"name": "value", "type": {"type": "map", "values": _INNER}}],
}
_DATA = [
    "bytes",
    "null",
    "boolean",
    {"type": "map", "values": ["null", "boolean", _JSON, "double", "string"]},
    {"type": "array", "items": "Json"},
    "double",
    "string",
]
_VALUES = {"type": "map", "values": ["null", "boolean", "int", "string", "bytes"]}
SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Published",
        "fields": [{"name": "attribute", "type": _VALUES}, {"name": "data", "type": _DATA}],
    }
)


def document(payload: Any = None, drop: str = "", **attributes: Any) -> bytes:
    """The good event without ``drop``, with these attributes in their Avro types."""
    found = {name: value for name, value in (GOOD | attributes).items() if name not in drop.split()}
    stream = BytesIO()
    fastavro.schemaless_writer(stream, SCHEMA, {"attribute": found, "data": payload})
    return stream.getvalue()


def number(value: int) -> bytes:
    """A long: zigzag, then groups of seven bits."""
    value = (value << 1) ^ (value >> 63)
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def text(value: str | bytes) -> bytes:
    base64_of = value.encode() if isinstance(value, str) else value
    return number(len(base64_of)) + base64_of


def entry(name: str, branch: int, value: bytes) -> bytes:
    return text(name) + number(branch) + value


NULL, FLAG, INT, STRING, BYTES = range(5)
ENTRIES = [entry(name, STRING, text(value)) for name, value in GOOD.items()]
NO_DATA = number(1)


def by_hand(*more: bytes, entries: list[bytes] = ENTRIES, data: bytes = NO_DATA) -> bytes:
    """A record of raw entries, in one block."""
    every = [*entries, *more]
    block = number(len(every)) + b"".join(every) if every else b""
    return block + number(0) + data


W = Writer("avro", "application/cloudevents+avro")


def valid_attributes() -> None:
    W.file("attributes")
    ok = W.events
    ok("smallest-event", "core 1.1", "Four attributes are a whole event.", document(), event())
    ok(
        "every-core-attribute",
        "core 1.1",
        "All of them are text.",
        document(
            **(
                core := {
                    "datacontenttype": "text/plain",
                    "dataschema": "https://example.org/cloth",
                    "subject": "bolt 9",
                    "time": "2026-03-01T08:30:00Z",
                }
            )
        ),
        event(**core),
    )
    ok(
        "every-type", "core 1.3, Avro 2.1", "Boolean, Integer and Binary have types of their own; the rest is text.",
        document(n=10, flag=True, word="text", bits=b"Ma", uri="https://example.org", ref="//host/path", at="2023-03-31T15:12:00Z"),
        event(types={"n": "Integer", "flag": "Boolean"}, n="10", flag="true", word="text", bits="TWE=", uri="https://example.org", ref="//host/path", at="2023-03-31T15:12:00Z"),
    )  # fmt: skip
    for name, value in (("largest", 2**31 - 1), ("smallest", -(2**31)), ("zero", 0)):
        ok(
            f"{name}-integer",
            "core 1.3",
            "An Integer has 32 bits.",
            document(n=value),
            event(types={"n": "Integer"}, n=str(value)),
        )
    ok(
        "false",
        "core 1.3",
        "false is a value.",
        document(flag=False),
        event(types={"flag": "Boolean"}, flag="false"),
    )
    ok(
        "null-attribute",
        "Avro 2.3, J2",
        "null is unset.",
        document(subject=None, crew=None),
        event(),
    )
    ok("empty-text", "core 1.3", "An extension may be empty.", document(word=""), event(word=""))
    ok(
        "empty-bytes",
        "core 1.3",
        "No bytes are the empty text of base64.",
        document(bits=b""),
        event(bits=""),
    )
    ok(
        "unicode",
        "core 1.3",
        "Text is Unicode.",
        document(subject="Flügel 🧵"),
        event(subject="Flügel 🧵"),
    )
    for name, time in (
        ("nanoseconds", "2026-03-01T08:30:00.123456789Z"),
        ("offset", "2026-03-01T14:00:00+05:30"),
        ("leap-second", "2016-12-31T23:59:60Z"),
        ("lower-case", "2026-03-01t08:30:00z"),
        ("trailing-zeros", "2026-03-01T08:30:00.000Z"),
    ):
        ok(
            f"time-{name}",
            "core 1.3",
            "Text in, the same text out.",
            document(time=time),
            event(time=time),
        )
    W.any_source(document)
    ok(
        "name-of-one-character",
        "core 1.2",
        "One character is a name.",
        document(x="1"),
        event(x="1"),
    )
    ok(
        "name-of-forty-characters",
        "core 1.2",
        "Twenty is advice, not a bound.",
        document(**{"a" * 40: "1"}),
        event(**{"a" * 40: "1"}),
    )
    ok(
        "name-beginning-with-a-digit",
        "core 1.2",
        "1.0 allows it.",
        document(**{"2fa": "1"}),
        event(**{"2fa": "1"}),
    )
    sized = b"".join(ENTRIES[:2])
    ok(
        "attributes-in-two-blocks",
        "Avro 2.4",
        "A map comes in blocks, and a block may tell its size in bytes.",
        number(-2)
        + number(len(sized))
        + sized
        + number(2)
        + b"".join(ENTRIES[2:])
        + number(0)
        + NO_DATA,
        event(),
    )
    ok(
        "attributes-in-another-order",
        "core 1.1",
        "Order means nothing.",
        by_hand(entries=ENTRIES[::-1]),
        event(),
    )


def valid_data() -> None:
    W.file("data")
    ok, mt = W.events, "datacontenttype"
    explicit = {mt: "application/json"}
    ok(
        "bytes",
        "Avro 3",
        "Bytes are the payload.",
        document(b"\x00\xff"),
        event(base64_of(b"\x00\xff")),
    )
    ok(
        "no-bytes",
        "Avro 3",
        "No bytes are data, which is not no data.",
        document(b""),
        event(base64_of(b"")),
    )
    ok(
        "no-data",
        "Avro 3",
        "null is no data: the format has no other way to say so.",
        document(**{mt: "application/json"}),
        event(**{mt: "application/json"}),
    )
    ok(
        "json-in-bytes",
        "Avro 3",
        "Bytes are not looked at.",
        document(b'{"n": 1.10}', **{mt: "application/json"}),
        event(base64_of(b'{"n": 1.10}'), **{mt: "application/json"}),
    )
    ok(
        "null-in-bytes",
        "J9",
        "The payload null is four bytes.",
        document(b"null", **{mt: "application/json"}),
        event(base64_of(b"null"), **{mt: "application/json"}),
    )
    ok(
        "text",
        "Avro 3, J7",
        "A string under a type of text is text.",
        document("linen", **{mt: "text/plain"}),
        event({"text": "linen"}, **{mt: "text/plain"}),
    )
    ok(
        "empty-text-data",
        "Avro 3",
        "Empty text is data.",
        document("", **{mt: "text/plain"}),
        event({"text": ""}, **{mt: "text/plain"}),
    )
    ok(
        "text-in-latin-1",
        "Avro 3, J7",
        "Text is encoded as its type says.",
        document("Tüll", **{mt: "text/plain; charset=iso-8859-1"}),
        event({"base64": "VPxsbA==", "form": "text"}, **{mt: "text/plain; charset=iso-8859-1"}),
    )
    ok(
        "string-without-a-type",
        "Avro 3, J11",
        "Without a type data is JSON, and a string a JSON string.",
        document("linen"),
        event({"json": '"linen"'}),
        again=explicit,
    )
    ok(
        "string-under-json",
        "Avro 3, J11",
        "A string is a JSON string, whatever it holds.",
        document('{"a":1}', **{mt: "application/json"}),
        event({"json": '"{\\"a\\":1}"'}, **{mt: "application/json"}),
    )
    for name, value, json in (
        ("true", True, "true"),
        ("false", False, "false"),
        ("number", 2.5, "2.5"),
        (
            "object",
            {"b": 1.5, "a": "x", "n": None, "t": True},
            '{"b":1.5,"a":"x","n":null,"t":true}',
        ),
        ("empty-object", {}, "{}"),
        ("empty-list", [], "[]"),
        ("list-of-objects", [{"value": {"a": 2.5}}, {"value": {}}], '[{"a":2.5},{}]'),
        (
            "nested-object",
            {"a": {"value": {"b": {"c": {"value": {"d": "x"}}}}}},
            '{"a":{"b":{"c":{"d":"x"}}}}',
        ),
        (
            "list-in-an-object",
            {"a": {"value": {"b": [{"value": {"c": None}}]}}},
            '{"a":{"b":[{"c":null}]}}',
        ),
    ):
        ok(
            f"json-{name}",
            "Avro 3, J6",
            "A native value is a JSON value.",
            document(value),
            event({"json": json}),
            again=explicit,
        )
    ok(
        "json-under-plus-json",
        "Avro 3, J6",
        "Any type that declares JSON.",
        document({"a": 1.5}, **{mt: "application/vnd.cloth+json"}),
        event({"json": '{"a":1.5}'}, **{mt: "application/vnd.cloth+json"}),
    )


def invalid_attributes() -> None:
    W.file("invalid")
    bad = W.faults
    for name in GOOD:
        W.lacking(name, document)
        bad(
            f"empty-{name}",
            "core 1.1",
            f"{name} must not be empty.",
            document(**{name: ""}),
            f"empty-attribute@/{name}",
        )
        bad(
            f"null-{name}",
            "core 1.1, J2",
            f"null is unset, and {name} must be set.",
            document(**{name: None}),
            f"missing-attribute@/{name}",
        )
    bad(
        "no-attributes",
        "core 1.1",
        "An event that lacks everything.",
        by_hand(entries=[]),
        *(f"missing-attribute@/{name}" for name in GOOD),
    )
    for version in ("0.9", "0.3"):
        W.other_version(version, document)
    for name in ("subject", "datacontenttype", "dataschema", "time"):
        bad(
            f"empty-{name}",
            "core 1.1",
            f"{name} is left out or filled.",
            document(**{name: ""}),
            f"empty-attribute@/{name}",
        )
        bad(
            f"{name}-is-an-integer",
            "core 1.1",
            f"{name} is no Integer.",
            document(**{name: 5}),
            f"wrong-type@/{name}",
        )
    bad("id-is-a-boolean", "core 1.1", "id is a String.", document(id=True), "wrong-type@/id")
    bad("id-is-bytes", "core 1.1", "id is a String.", document(id=b"k-5"), "wrong-type@/id")
    bad(
        "bad-content-type",
        "core 1.1",
        "No media type.",
        document(datacontenttype="xyz"),
        "bad-media-type@/datacontenttype",
    )
    for name, time in (
        ("date-only", "2026-03-01"),
        ("hour-24", "2026-03-01T24:00:00Z"),
        ("without-offset", "2026-03-01T08:30:00"),
    ):
        bad(f"time-{name}", "core 1.3", "Not RFC 3339.", document(time=time), "bad-timestamp@/time")
    bad(
        "relative-schema",
        "core 1.1",
        "dataschema is absolute.",
        document(dataschema="//host/cloth"),
        "bad-uri@/dataschema",
    )
    W.bad_source(document)
    for name, label in (
        ("Crew", "upper-case"),
        ("my.crew", "dot"),
        ("my-crew", "hyphen"),
        ("", "no-character"),
        ("data", "data"),
    ):
        bad(
            f"name-with-{label}",
            "core 1.2",
            "Names are a to z and 0 to 9.",
            document(**{name: "a"}),
            f"bad-attribute-name@/{name}",
        )
    for name, value in (
        ("control", "a\x07"),
        ("null-character", "\0"),
        ("next-line", "\x85"),
        ("noncharacter", "\ufdd0"),
    ):
        bad(
            f"text-with-{name}",
            "core 1.3",
            "What no String may hold.",
            document(word=value),
            "forbidden-character@/word",
        )
    bad(
        "attribute-twice",
        "core 1.1",
        "At most once; no last one wins.",
        by_hand(entry("crew", STRING, text("a")), entry("crew", STRING, text("b"))),
        "duplicate-attribute@/crew",
    )
    bad(
        "id-twice",
        "core 1.1",
        "At most once, even the same.",
        by_hand(ENTRIES[1]),
        "duplicate-attribute@/id",
    )
    bad(
        "null-twice",
        "core 1.1",
        "A name is there once, whatever its value.",
        by_hand(entry("crew", NULL, b""), entry("crew", STRING, text("a"))),
        "duplicate-attribute@/crew",
    )
    bad(
        "null-after-a-value",
        "core 1.1",
        "Nor does null take back what was there.",
        by_hand(entry("crew", STRING, text("a")), entry("crew", NULL, b"")),
        "duplicate-attribute@/crew",
    )
    bad(
        "twice-in-two-blocks",
        "core 1.1",
        "Blocks make no difference.",
        number(4) + b"".join(ENTRIES) + number(1) + ENTRIES[1] + number(0) + NO_DATA,
        "duplicate-attribute@/id",
    )
    for name, value in (("two-to-the-31", 2**31), ("below-the-smallest", -(2**31) - 1)):
        bad(
            f"integer-{name}",
            "core 1.3",
            "An Integer has 32 bits; nothing is cut off.",
            by_hand(entry("n", INT, number(value))),
            "integer-out-of-range@/n",
        )
    bad(
        "every-fault",
        "core 1.1",
        "All at once.",
        document(drop="id", source="a b", time=1, Crew="a"),
        "missing-attribute@/id",
        "bad-uri-reference@/source",
        "wrong-type@/time",
        "bad-attribute-name@/Crew",
    )
    bad(
        "too-many-attributes",
        "rule 8",
        "Attributes of one event are bounded.",
        document(**{f"x{i}": "" for i in range(1025)}),
        "too-many-attributes",
    )


def invalid_data() -> None:
    W.file("bytes")
    bad, good, mt = W.faults, document(), "datacontenttype"
    bad(
        "number-under-text",
        "Avro 3, J12",
        "Under a type of text data is text or bytes.",
        document(5.5, **{mt: "text/plain"}),
        "data-not-text@/data",
    )
    bad(
        "object-under-text",
        "Avro 3, J12",
        "Under a type of text data is text or bytes.",
        document({"a": "b"}, **{mt: "text/plain"}),
        "data-not-text@/data",
    )
    bad(
        "text-that-cannot-be-encoded",
        "Avro 3, J7",
        "Refused, not maimed.",
        document("€", **{mt: "text/plain; charset=us-ascii"}),
        "data-not-encodable@/data",
    )
    for name, value in (
        ("nan", float("nan")),
        ("infinity", float("inf")),
        ("minus-infinity", float("-inf")),
    ):
        bad(
            f"data-{name}",
            "Avro 3, J6",
            "JSON has no such number.",
            document(value),
            "data-not-json@/data",
        )
    bad(
        "data-nan-inside",
        "Avro 3, J6",
        "Nor deep inside.",
        document({"a": {"value": {"b": float("nan")}}}),
        "data-not-json@/data",
    )
    bad("empty-document", "Avro 2.4", "No bytes are no record.", b"", "bad-avro")
    bad("cut-short", "Avro 2.4", "The record ends too early.", good[:-1], "bad-avro")
    bad("trailing-byte", "Avro 2.4", "Something follows the record.", good + b"\0", "bad-avro")
    bad("two-records", "Avro 2.4", "One document, one event.", good + good, "bad-avro")
    bad("json-instead", "Avro 2.4", "JSON is no Avro.", b'{"id":"k-5"}', "bad-avro")
    bad(
        "container-file",
        "Avro 2.4",
        "A container file is another encoding.",
        b"Obj\x01" + good,
        "bad-avro",
    )
    bad(
        "single-object-encoding",
        "Avro 2.4",
        "A fingerprint before the record is another encoding.",
        b"\xc3\x01" + b"\x11" * 8 + good,
        "bad-avro",
    )
    bad(
        "unknown-branch-of-a-value",
        "Avro 2.4",
        "A value has five branches.",
        by_hand(text("n") + number(5) + number(1)),
        "bad-avro",
    )
    bad(
        "unknown-branch-of-data",
        "Avro 2.4",
        "Data has seven branches.",
        by_hand(data=number(7)),
        "bad-avro",
    )
    bad(
        "negative-branch",
        "Avro 2.4",
        "There is no branch below none.",
        by_hand(data=number(-1)),
        "bad-avro",
    )
    bad(
        "negative-length",
        "Avro 2.4",
        "A length is not negative.",
        by_hand(data=number(0) + number(-5)),
        "bad-avro",
    )
    bad(
        "length-beyond-the-end",
        "Avro 2.4",
        "Longer than what is there.",
        by_hand(data=number(0) + number(9) + b"abc"),
        "bad-avro",
    )
    bad(
        "text-not-utf-8",
        "Avro 2.4",
        "Strings are UTF-8.",
        by_hand(entry("word", STRING, text(b"\xc0\xa0"))),
        "bad-avro",
    )
    bad(
        "surrogate-in-text",
        "Avro 2.4",
        "Surrogates are not UTF-8.",
        by_hand(entry("word", STRING, text(b"\xed\xa0\x80"))),
        "bad-avro",
    )
    deep: Any = {"value": {"a": "x"}}
    for _ in range(80):
        deep = {"value": {"a": {"b": deep}}}
    bad("data-too-deep", "rule 8", "Depth is bounded.", document({"a": deep}), "bad-avro")


valid_attributes()
valid_data()
invalid_attributes()
invalid_data()

if __name__ == "__main__":
    W.write()
