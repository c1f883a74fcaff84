"""Records for tests of the pipeline's decoder: from the corpora, random, and harmful."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from app.bindings.kafka import encode
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.table import with_type_in_header
from app.bindings.transcode import EncodeOptions
from app.event.convert import as_version
from app.event.value import AttributeType, DataForm
from app.event.versions import VERSIONS
from bad_requests import BAD_REQUESTS
from corpus import Case, cases, octets
from corpus_documents import document_of
from corpus_records import record_of
from event_strategies import (
    events,
    foreign_headers,
    header_pairs,
    instructions,
    json_texts,
    mutated,
    old_documents,
    texts,
)
from hostile_json import NOT_JSON, STRINGS, VALUES
from valid_wire import DOCUMENTS, MESSAGES

Drawn = TypeVar("Drawn")

RAW = pa.schema(
    [
        ("broker", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("record_time", pa.timestamp("us", "UTC")), ("key", pa.binary()), ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)  # fmt: skip
"""The Arrow schema of ``app.spark.columns.RAW``."""

JSON_TYPE = b"application/cloudevents+json"
_SEED = 8


PULSAR_TOPIC = "persistent://public/default/t"


def raw_table(records: Sequence[Record], topic: str = "t") -> pa.Table:
    """Return records as Spark's Kafka source delivers them, with their indexes as offsets."""
    count = len(records)
    rows = {
        "broker": ["kafka"] * count,
        "topic": [topic] * count,
        "partition": [0] * count,
        "offset": list(range(count)),
        "record_time": [datetime(2026, 11, 20, tzinfo=UTC)] * count,
        "key": [record.key for record in records],
        "value": [record.body for record in records],
        "headers": [
            [{"key": name, "value": value} for name, value in record.headers] for record in records
        ],
    }
    return pa.table(rows, RAW)


def document(text: bytes, content_type: bytes = JSON_TYPE) -> Record:
    return Record(None, (("content-type", content_type),), text)


def corpus() -> list[Record]:
    """Return every message of every corpus as a Kafka record.

    Messages of brokers stay as they are, documents get their media type, and HTTP headers get their
    names in Kafka.
    """
    of_brokers = [case for folder in ("kafka", "rabbitmq", "pulsar") for case in cases(folder)]
    of_formats = [case for folder in ("json", "protobuf", "avro") for case in cases(folder)]
    return [
        *(_plain(with_type_in_header(_untyped(record_of(case)))) for case in of_brokers),
        *(document(document_of(case), _media_type(case)) for case in of_formats),
        *(
            _of_http(case.message["headers"], octets(case.message["body"]))
            for case in cases("http")
        ),
        *(_of_request(request.headers, request.body) for request in BAD_REQUESTS),
        *(_plain(Record(None, each.headers, each.body)) for each in MESSAGES["kafka"]),
        *(document(text) for text in DOCUMENTS),
    ]


def _untyped(record: Record) -> Record:
    """Return the record as a client without header types writes it, where a typed value without
    text becomes null.
    """
    return replace(record, natives={})


def _plain(record: Record) -> Record:
    return Record(record.key, record.headers, record.body)


def _media_type(case: Case) -> bytes:
    return str(case.message["media_type"]).encode()


def _of_http(headers: Sequence[tuple[str, Any]], body: bytes | None) -> Record:
    return Record(None, tuple((_kafka_name(name), octets(value)) for name, value in headers), body)


def _of_request(headers: Sequence[tuple[bytes, bytes]], body: bytes) -> Record:
    named = ((_kafka_name(name.decode("latin-1")), value) for name, value in headers)
    return Record(None, tuple(named), body)


def _kafka_name(name: str) -> str:
    return f"ce_{name[3:]}" if name.startswith("ce-") else name


def drawn(strategy: st.SearchStrategy[Drawn], count: int) -> list[Drawn]:
    """Return ``count`` examples of a strategy, the same in every run."""
    found: list[Drawn] = []

    @seed(_SEED)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Drawn) -> None:
        found.append(example)

    collect()
    return found


def generated(count: int) -> list[Record]:
    """Return about ``count`` records of every version and mode, some of them invalid."""
    share = -(-count // len(_KINDS))
    return [record for kind in _KINDS for record in drawn(kind, share)]


def clean(count: int, write: Callable[..., Record] = encode) -> list[Record]:
    """Return ``count`` valid events of every version and mode, in the layouts that producers use.

    ``write`` is the ``encode`` function of a binding, by default that of Kafka.
    """
    return drawn(_usual(write), count)


_WORDS = st.text("abcXYZ019 .:/_-'\u00e9\u00df\u20ac\u6f22\U0001f600", min_size=1, max_size=20)
_USUAL_DATA = st.one_of(
    st.tuples(st.sampled_from([None, "application/json", "application/vnd.a+json; charset=utf-8"]), json_texts,
              st.just(DataForm.JSON)),
    st.tuples(st.just("text/plain; charset=utf-8"), (_WORDS | texts).map(str.encode), st.just(DataForm.TEXT)),
    st.tuples(st.just("image/png"), st.binary(max_size=40), st.just(DataForm.OPAQUE)),
    st.tuples(st.none(), st.none(), st.just(DataForm.OPAQUE)),
)  # fmt: skip
_USUAL_EXTENSIONS = st.dictionaries(
    st.sampled_from(["partitionkey", "traceparent", "sequence", "tenant", "sampled"]),
    st.one_of(
        _WORDS.map(lambda text: (text, AttributeType.STRING)),
        st.integers(0, 2_000_000_000).map(lambda n: (str(n), AttributeType.INTEGER)),
        st.booleans().map(lambda flag: (str(flag).lower(), AttributeType.BOOLEAN)),
    ),
    max_size=3,
)


@st.composite
def _usual(draw: st.DrawFn, write: Callable[..., Record] = encode) -> Record:
    usual = draw(events(_WORDS, _USUAL_DATA, _USUAL_EXTENSIONS))
    event = as_version(usual, draw(st.sampled_from(["1.0", "1.0", *VERSIONS])))
    layout = draw(st.sampled_from(["binary", "structured", "any"]))
    mode = "binary" if layout == "binary" else "structured"
    record = write(Decoded(event, ContentMode.BINARY), EncodeOptions(mode=mode), None)
    return _drawn_layout(draw, record) if layout == "any" else record


@st.composite
def _encoded(draw: st.DrawFn) -> Record:
    """Draw a record as Skybridge writes it, of any version and mode."""
    event = as_version(draw(events()), draw(st.sampled_from(["1.0", "1.0", *VERSIONS])))
    mode = draw(st.sampled_from(["binary", "structured"]))
    decoded = Decoded(event, ContentMode.BINARY, foreign=draw(foreign_headers))
    return encode(decoded, EncodeOptions(mode=mode), draw(st.none() | st.binary(max_size=4)))


@st.composite
def _laid_out(draw: st.DrawFn) -> Record:
    record = encode(
        Decoded(draw(events()), ContentMode.BINARY), EncodeOptions(mode="structured"), None
    )
    return _drawn_layout(draw, record)


def _drawn_layout(draw: st.DrawFn, record: Record) -> Record:
    """Draw the layout of a document: order of members, white space and ASCII escapes."""
    members = list(json.loads(record.body or b"").items())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    written = json.dumps(
        dict(draw(st.permutations(members))),
        indent=2 if draw(st.booleans()) and separators[0] == "," else None,
        separators=separators,
        ensure_ascii=draw(st.booleans()),
    )
    return document(written.encode(), draw(st.sampled_from([JSON_TYPE, _CHARSET])))


_CHARSET = b"application/cloudevents+json; charset=utf-8"


@st.composite
def _odd_headers(draw: st.DrawFn) -> Record:
    """Draw a record with arbitrary headers, which may contradict each other."""
    pairs = draw(header_pairs)
    return _of_request(pairs, draw(st.sampled_from([b"", b"{}", b'{"a":1}', b"\xff"])))


@st.composite
def _changed_header(draw: st.DrawFn) -> Record:
    """Draw a message with one header removed, doubled, set to null or another value, or renamed."""
    message = draw(st.sampled_from(MESSAGES["kafka"]))
    headers: list[Header] = list(message.headers)
    at = draw(st.integers(0, max(len(headers) - 1, 0)))
    name, value = headers[at] if headers else ("x", b"1")
    other = draw(
        st.none() | st.binary(max_size=6) | st.sampled_from([b"5", b"true", b'"x"', b'"', b"{}", b"a b", b"a\nb"])
    )  # fmt: skip
    change = draw(st.sampled_from(["lose", "double", "set", "rename"]))
    if change == "lose":
        del headers[at : at + 1]
    elif change == "double":
        headers.insert(at, (name, draw(st.sampled_from([value, other]))))
    elif change == "set":
        headers[at : at + 1] = [(name, other)]
    else:
        headers[at : at + 1] = [(draw(st.sampled_from(_NAMES)), value)]
    return Record(None, tuple(headers), message.body)


_NAMES = ["CE_ID", "ce_Ext", "ce_data", "ce_a-b", "ce_subject", "ce_schemaurl", "ce_datacontenttype", "ce_dataschema",
          "CE-X-subject", "CE-X-a", "Content-Type", "content-type", "ce_extensions", "a\nb", "ce_a\nb", ""]  # fmt: skip


_MUTATED = st.tuples(st.sampled_from(DOCUMENTS), instructions)
_KINDS: list[st.SearchStrategy[Record]] = [
    _encoded(),
    _laid_out(),
    old_documents().map(lambda made: document(made[1].encode())),
    _odd_headers(),
    _changed_header(),
    _MUTATED.map(lambda pair: document(mutated(pair[0], pair[1]))),
    _MUTATED.map(lambda pair: Record(None, (), mutated(pair[0], pair[1]))),
]

REQUIRED: tuple[Header, ...] = (
    ("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t"),
)  # fmt: skip


def _with(rest: bytes) -> Record:
    return document(b'{"specversion":"1.0","id":"1","source":"/s","type":"t",' + rest + b"}")


def _quoted(value: bytes) -> Record:
    """Return a record of CloudEvents 0.2, whose header values are JSON, with this extension."""
    own = [(name, b'"%b"' % (text or b"")) for name, text in REQUIRED if name != "ce_specversion"]
    return Record(None, (*own, ("ce_specversion", b'"0.2"'), ("ce_ext", value)), b"")


def poison() -> dict[str, Record]:
    """Return records by name that once made Spark queries fail or return wrong rows."""
    return {
        "a header twice": Record(None, (*REQUIRED, ("ce_id", b"2")), b""),
        "an extension twice": Record(None, (*REQUIRED, ("ce_a", b"1"), ("ce_a", b"2")), b""),
        "a foreign header twice": Record(None, (*REQUIRED, ("x", b"1"), ("x", b"2")), b"x"),
        "a null header": Record(None, (*REQUIRED, ("ce_a", None), ("x", None)), b""),
        "no headers": Record(None, (), None),
        "a key twice": _with(b'"id":"2"'),
        "an extension twice in JSON": _with(b'"a":"1","a":"2"'),
        "an integer twice in JSON": _with(b'"a":1,"a":1'),
        "data twice": _with(b'"data":1,"data":""'),
        "data twice, spaced": _with(b'"data":1,"data" : ""'),
        "text after the object": document(b'{"specversion":"1.0","id":"1","source":"/","type":"t"}x'),
        "text after data": _with(b'"data":{}}{'),
        "single quotes": document(b"{'specversion':'1.0','id':'1','source':'/','type':'t'}"),
        "NaN": _with(b'"data":NaN'),
        "a byte order mark": document(b'\xef\xbb\xbf{"specversion":"1.0","id":"1","source":"/","type":"t"}'),
        "a number for an id": document(b'{"specversion":"1.0","id":1,"source":"/","type":"t"}'),
        "a boolean for a type": document(b'{"specversion":"1.0","id":"1","source":"/","type":true}'),
        "deep arrays": _with(b'"data":' + b"[" * 5000 + b"]" * 5000),
        "deep objects": _with(b'"data":' + b'{"a":' * 1100 + b"1" + b"}" * 1100),
        "a long number": _with(b'"data":' + b"1" * 2000),
        "a huge exponent": _with(b'"data":1e99999'),
        "a long text": _with(b'"data":"' + b"x" * 3_000_000 + b'"'),
        "many escapes": _with(b'"data":"' + b"\\n" * 100_000 + b'"'),
        "many members": _with(b",".join(b'"a%d":1' % n for n in range(5000))),
        "a long name": _with(b'"' + b"n" * 60_000 + b'":"x"'),
        "bad UTF-8 in data": _with(b'"data":"\xff"'),
        "bad UTF-8 before data": _with(b'"a":"\xe2","data":1'),
        "bad UTF-8 in a header": Record(None, (*REQUIRED, ("ce_a", b"\xff")), b""),
        "bytes that are no text": Record(None, REQUIRED, b"\xff\x00"),
        "a lone surrogate": _with(b'"data":"\\ud800"'),
        **{f"hostile data {n}": _with(b'"data":' + data) for n, data in enumerate(VALUES)},
        **{f"a hostile attribute {n}": _with(b'"ext":' + text) for n, text in enumerate(STRINGS)},
        **{f"a hostile name {n}": _with(text + b':"x"') for n, text in enumerate(STRINGS)},
        **{f"hostile text {n}": _with(b'"datacontenttype":"text/plain","data":' + text) for n, text in enumerate(STRINGS)},
        **{f"hostile, and no JSON {n}": _with(b'"data":' + text) for n, text in enumerate(NOT_JSON)},
        **{f"a hostile quoted header {n}": _quoted(text) for n, text in enumerate(STRINGS)},
        **{f"a hostile entry of a Map {n}": _quoted(b'{"a":%b}' % text) for n, text in enumerate(STRINGS)},
        "a hostile document without a type": Record(None, (), _with(b'"data":"\\ud800"').body),
        "an array": document(b"[{}]"),
        "noon": Record(None, (*REQUIRED, ("ce_time", b"12:00")), b""),
        "a leap second": Record(None, (*REQUIRED, ("ce_time", b"2026-12-31T23:59:60Z")), b""),
        "a far offset": Record(None, (*REQUIRED, ("ce_time", b"2026-12-31T23:59:00+23:59")), b""),
        "the year 0": Record(None, (*REQUIRED, ("ce_time", b"0000-01-01T00:00:00Z")), b""),
        "small letters": Record(None, (*REQUIRED, ("ce_time", b"2026-12-31t23:59:00z")), b""),
        "base64 with loose ends": _with(b'"data_base64":"AB=="'),
        "two documents of data": _with(b'"data":1,"data_base64":"AA=="'),
        "Protobuf": document(b"\x0a\x01", b"application/cloudevents+protobuf"),
        "XML": document(b"<a/>", b"application/cloudevents+xml"),
        "an unknown format": document(b"x", b"application/cloudevents+cbor"),
    }  # fmt: skip


ENDS = (
    b"1", b" 1 ", b'{"a":[{}]}\n', b"null", b'""', b'"}"', b'"]" ', b"\t[ ]\r\n", b"[" * 800 + b"]" * 800,
    b'"\\ud83d\\ude00"', b"1e400", b'"\xef\xbf\xbd"', b'{"a":1,"b":2}',
    b'{"a":1.10}', b"[1, {}, []]", b"-0.0e+5", b' [ { "a" : [ true ] } ]', b'"\\u00e9\\ud83d\\ude00"',
    b'{"a":1},"x":"y"', b'[1] , "n":5 ,"f":true', b'"s","x":"y"', b'{"extensions":{"a":"b"}}', b'{"mark":7}',
    b'{"a":{"b":1},"extensions":{"x":"y"}}', b'"\\ud83d\\ude00","x":"\\u00e9"', b'{"a":"b,","c":[{"d":"e"}]} ,"x":"y"',
)  # fmt: skip
"""Valid values of ``data`` at the end of a document, some followed by further members."""

_SEVENS = b"7" * 18

LOOSE_ENDS = (
    b"", b" ", b"-", b"01", b'"a\tb"', b'"x",', b"1}", b'1],"b":[2', b'"a"]', b'[1},"b":{]', b"1}]", b"1 2", b"1}x",
    b'1} , {"b":2', b'1,"2"', b'"\\ud800"', b'"\xff"', b"[" * 1100 + b"]" * 1100, b'1,"data":2', b'1]}, [{"b":2}',
    b'"\\\\ud83d\\ude00"', b'{}],[{"mark":' + _SEVENS + b"}]] x", b"1],[" + _SEVENS + b"]] x",
    b'1],["' + b"\\u0037" * 18 + b'"]] x', b'{}],[{"mark":"' + b"\\u0037" * 18 + b'"}]] x', b'{},"x":"y",', b',"x":"y"',
    b'{"a":1,"x":"y"', b'{"a":1,"x":"y"},"data_base64":"YQ=="',
    b"1.", b"[1,]", b'{"a":1,}', b"{1:2}", b"NaN", b'{"a":NaN}', b"-Infinity", b"'x'", b"{'a':1}", b"[1 2]", b"nul", b"1x", b"[,1]",
    b'{"a":01}', b'{"a":"b\nc"}', b"{a:1}", b"[+1]", b"[1/**/]",
)  # fmt: skip
"""Invalid values of ``data``, some of which look valid to a parser that stops early."""


def ending(value: bytes) -> Record:
    """Return a document whose last member is ``data``, with this raw text as its value."""
    return _with(b'"data":' + value)
