"""Messages whose body has a content coding: RabbitMQ's property, and headers of that name elsewhere."""

from __future__ import annotations

import gzip
import zlib
from functools import partial
from typing import Any

import pytest

from app.bindings import kafka, pulsar, rabbitmq, wrapping
from app.bindings.amqp_table import from_table
from app.bindings.content_coding import coding_in, without_coding
from app.bindings.record import Record
from app.bindings.table import BINDINGS
from app.bindings.transcode import EncodeOptions
from app.errors import SenderError

zipped = partial(gzip.compress, mtime=0)  # the same bytes in every process

BODY = b'{"amount": 7}'
EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
DOCUMENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"amount":7}}'
RAW = zlib.compressobj(wbits=-15)
RAW_DEFLATE = RAW.compress(BODY) + RAW.flush()

UNDONE = [
    ("gzip", zipped(BODY)),
    ("GZIP", zipped(BODY)),
    ("x-gzip", zipped(BODY)),
    (" gzip ,", zipped(BODY)),
    ("gzip, identity", zipped(BODY)),
    ("gzip, utf-8", zipped(BODY)),
    ("deflate", zlib.compress(BODY)),
    ("Deflate", RAW_DEFLATE),
    ("identity", BODY),
    ("", BODY),
    ("utf-8", BODY),
    ("UTF8", BODY),
]
KEPT = ["br", "zstd", "gzip, deflate", "gzip, gzip", "compress", "aes256", "application/gzip"]


def amqp(coding: str | None, body: bytes, content_type: str = "application/json") -> Record:
    headers = {f"ce-{name}": value for name, value in EVENT.items()}
    return from_table({**headers, "trace": "x"}, content_type, body, content_encoding=coding)


def message(kind: str, coding: str, body: bytes) -> Record:
    if kind == "rabbitmq":
        return amqp(coding, body)
    prefix = "CE-" if kind == "pulsar" else "ce_"
    own = "CE-ContentType" if kind == "pulsar" else "content-type"
    name = (lambda n: prefix + n.capitalize()) if kind == "pulsar" else (lambda n: prefix + n)
    headers = [(name(each), value.encode()) for each, value in EVENT.items()]
    headers += [(own, b"application/json"), ("trace", b"x"), ("Content-Encoding", coding.encode())]
    return Record(None, tuple(headers), body)


@pytest.mark.parametrize("kind", BINDINGS)
@pytest.mark.parametrize(("coding", "body"), UNDONE)
def test_gzip_and_deflate_are_undone(kind: str, coding: str, body: bytes) -> None:
    """The event has the content, and nothing beside it says that it is coded."""
    decoded = BINDINGS[kind].decode(message(kind, coding, body))
    assert decoded.event.data == BODY
    assert decoded.event.attributes["datacontenttype"] == "application/json"
    beside = dict(decoded.foreign)
    assert beside.pop("trace") == b"x"
    assert not beside or body == BODY


@pytest.mark.parametrize("kind", BINDINGS)
@pytest.mark.parametrize("coding", KEPT)
def test_any_other_coding_makes_it_foreign_by_its_name(kind: str, coding: str) -> None:
    with pytest.raises(SenderError) as refused:
        BINDINGS[kind].decode(message(kind, coding, b"\x1b\x07\x00"))
    assert f"'{coding}'" in str(refused.value)
    assert refused.value.status == 415


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_grows_beyond_the_bound_is_foreign(coding: str) -> None:
    bomb = b"0" * 3_000_000
    body = zipped(bomb) if coding == "gzip" else zlib.compress(bomb)
    with pytest.raises(SenderError, match=f"{coding}.*1048576 bytes.*limits.body"):
        rabbitmq.decode(amqp(coding, body))
    assert rabbitmq.decode(amqp(coding, body), bound=3_000_000).event.data == bomb
    with pytest.raises(SenderError, match="2999999 bytes"):
        rabbitmq.decode(amqp(coding, body), bound=2_999_999)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", BODY),
        ("gzip", zipped(BODY)[:-3]),
        ("gzip", zipped(BODY) + b"x"),
        ("deflate", zipped(BODY)),
        ("gzip", zlib.compress(BODY)),
    ],
)
def test_what_no_coder_wrote_is_foreign(coding: str, body: bytes) -> None:
    with pytest.raises(SenderError, match=f"content coding '{coding}'"):
        rabbitmq.decode(amqp(coding, body))


def test_documents_have_codings_too() -> None:
    record = amqp("gzip", zipped(DOCUMENT), "application/cloudevents+json")
    decoded = rabbitmq.decode(record)
    assert decoded.document == DOCUMENT
    assert decoded.event.attributes["id"] == "1"


def test_no_body_is_no_data() -> None:
    assert rabbitmq.decode(amqp("gzip", b"")).event.data is None


@pytest.mark.parametrize("kind", BINDINGS)
def test_what_was_undone_is_written_without_a_coding(kind: str) -> None:
    """From RabbitMQ to any log."""
    decoded = rabbitmq.decode(amqp("gzip", zipped(BODY)))
    written = BINDINGS[kind].encode(decoded, EncodeOptions(), None)
    assert written.body == BODY
    assert not any("encoding" in name.lower() for name, _ in written.headers)


def test_the_property_goes_before_a_header_of_its_name() -> None:
    record = from_table({"Content-Encoding": "br"}, None, zipped(BODY), content_encoding="gzip")
    assert without_coding(record).body == BODY
    assert without_coding(record).headers == ()


def test_a_record_that_is_wrapped_says_its_coding() -> None:
    """What is no event of ours is no JSON either as long as it is coded."""
    origin = wrapping.RecordLocation("rabbit", "t", 0, "1", 1)
    decoded = wrapping.wrap(amqp("br", b"\x1b"), origin)
    attributes: dict[str, Any] = dict(decoded.event.attributes)
    assert attributes["datacontenttype"] == "application/octet-stream"
    assert '["content-encoding","br"]' in attributes["recordheaders"]
    assert '["content-type","application/json"]' in attributes["recordheaders"]
    again = kafka.decode(kafka.encode(decoded, EncodeOptions(), None))
    assert again.event.data == b"\x1b"
    assert pulsar.decode(pulsar.encode(decoded, EncodeOptions(), None)).event.data == b"\x1b"


@pytest.mark.parametrize("value", [["gzip"], {"coding": "gzip"}, [], 1.5, b"gzip"])
def test_a_header_that_is_no_text_is_a_coding_too(value: Any) -> None:
    """A list or a table is never passed on as if the body had no coding."""
    headers: dict[str, Any] = {f"ce-{name}": text for name, text in EVENT.items()}
    record = from_table({**headers, "Content-Encoding": value}, None, zipped(BODY))
    if value == b"gzip":
        assert rabbitmq.decode(record).event.data == BODY
        return
    with pytest.raises(SenderError) as refusal:
        rabbitmq.decode(record)
    assert refusal.value.code == "unsupported-content-encoding"
    assert repr(value) in str(refusal.value)
    assert coding_in(record)


def test_the_property_goes_before_a_list() -> None:
    record = from_table({"content-encoding": ["br"]}, None, zipped(BODY), content_encoding="gzip")
    assert without_coding(record).body == BODY


@pytest.mark.parametrize("name", ["content-type", "Content-Type", "x-skybridge-key"])
@pytest.mark.parametrize("value", [["text/plain"], {"a": "b"}, 1.5])
def test_a_header_that_decides_and_is_no_text_makes_the_message_foreign(
    name: str, value: Any
) -> None:
    """Else the event would lose its type or its key without a word."""
    headers: dict[str, Any] = {f"ce-{each}": text for each, text in EVENT.items()}
    record = from_table({**headers, name: value}, None, BODY)
    with pytest.raises(SenderError, match="is not a string") as refusal:
        rabbitmq.decode(record)
    assert name in str(refusal.value)


def test_a_content_type_beside_the_property_may_be_anything() -> None:
    headers: dict[str, Any] = {f"ce-{each}": text for each, text in EVENT.items()}
    record = from_table({**headers, "content-type": ["x"]}, "application/json", BODY)
    assert rabbitmq.decode(record).event.data == BODY


@pytest.mark.parametrize(
    ("value", "key"), [("k", b"k"), (b"\xff", b"\xff"), (7, b"7"), (None, None)]
)
def test_a_key_that_has_a_text_is_one(value: Any, key: bytes | None) -> None:
    record = from_table({"x-skybridge-key": value}, None, BODY)
    assert (record.key, record.headers) == (key, ())
