"""Whatever arrives, a reader gives an event or the sender's fault: never another error, never a 500."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bindings import http, rabbitmq
from app.bindings.amqp_table import from_table
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.table import BINDINGS
from app.errors import SenderError
from app.formats import avro, json, protobuf
from event_strategies import foreign_headers, instructions, mutated, natives, texts
from example_counts import READERS, examples
from reading_checks import KINDS, answered
from valid_wire import DOCUMENTS, MESSAGES, REQUESTS, BinaryMessage

TYPES = st.sampled_from(
    [b"application/cloudevents+json", b"application/cloudevents", b"application/cloudevents-batch",
     b"application/cloudevents-batch+json", b"application/cloudevents+json; charset=utf-16",
     b"application/cloudevents+json; charset=no", b"application/cloudevents+protobuf",
     b"application/cloudevents-batch+protobuf", b"application/cloudevents+avro",
     b"application/cloudevents+xml", b"application/cloudevents+unknown; a=b",
     b"application/cloudevents+\xff", b"application/cloudevents+json; \x00"]
)  # fmt: skip
FORMATS = {"json": json, "protobuf": protobuf, "avro": avro}

documents = st.binary(max_size=200) | st.builds(mutated, st.sampled_from(DOCUMENTS), instructions)
"""Arbitrary bytes, or a document of some format and version after a few changes."""


@given(TYPES, documents, st.sampled_from(["forward", "refuse"]))
@examples(READERS)
def test_a_document_over_http(content_type: bytes, body: bytes, unknown: str) -> None:
    """400, 413 or 415; and an event, or several."""
    answered(lambda: http.decode([(b"content-type", content_type)], body, unknown_formats=unknown))


@pytest.mark.parametrize("kind", KINDS)
@given(st.none() | TYPES, documents | st.none(), foreign_headers)
@examples(READERS // 2)
def test_a_document_in_a_record(
    kind: str, content_type: bytes | None, body: bytes | None, foreign: tuple[Header, ...]
) -> None:
    """A dead letter with its reason; and documents that nobody named are recognised or not."""
    named: tuple[Header, ...] = ()
    prop = None
    if content_type is not None:
        name = {"kafka": "content-type", "pulsar": "CE-ContentType", "rabbitmq": ""}[kind]
        named = ((name, content_type),) if name else ()
        prop = None if name else content_type.decode("utf-8", "surrogateescape")
    record = Record(None, (*named, *foreign), body, prop)
    answered(lambda: [BINDINGS[kind].decode(record)])


HOW = ("drop", "repeat", "rename", "value")
VALUES = (
    None, b"", b"\xff", b"\x00", b'"', b'"\x80', b"%", b"%00", b"1.0", b'"0.2"', b"0.9", b"{}",
    b"application/cloudevents+new",
)  # fmt: skip


def changed(headers: tuple[Header, ...], changes: list[tuple[int, ...]]) -> tuple[Header, ...]:
    """Headers of a valid event: some lost, repeated, renamed, or with another value."""
    found = list(headers)
    for place, how, naming, chosen in changes:
        at = place % len(found) if found else 0
        name, old = found[at] if found else ("x", None)
        value = (
            VALUES[chosen] if chosen < len(VALUES) else bytes([chosen, naming, how])[: chosen % 4]
        )
        found[at : at + 1] = {
            "drop": [],
            "repeat": [(name, old), (name, value)],
            "rename": [(renamed(name, naming), old)],
            "value": [(name, value)],
        }[HOW[how % len(HOW)]]
    return tuple(found)


def renamed(name: str, naming: int) -> str:
    return (name.upper(), name[1:], f"x-{name}", f"{name}\x1b\u00e9")[naming % 4]


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 9999), st.sampled_from([None, "", "\udcff"]), instructions)
@examples(READERS)
def test_headers_of_a_record(
    kind: str, which: int, other_type: str | None, changes: list[tuple[int, ...]]
) -> None:
    """Of every version, after a few changes."""
    message = MESSAGES[kind][which % len(MESSAGES[kind])]
    content_type = message.content_type if other_type is None else other_type
    odd = Record(None, changed(message.headers, changes), message.body, content_type)
    answered(lambda: [BINDINGS[kind].decode(odd)])


@given(st.sampled_from(REQUESTS), instructions, st.booleans())
@examples(READERS)
def test_headers_over_http(
    message: BinaryMessage, changes: list[tuple[int, ...]], strict: bool
) -> None:
    """Of every version, after a few changes."""
    headers = changed(message.headers, changes)
    pairs = [(name.lower().encode(), value or b"") for name, value in headers]
    answered(lambda: http.decode(pairs, message.body or b"", strict_percent=strict))


_tables = st.dictionaries(
    st.builds(
        str.__add__,
        st.sampled_from(["ce-", "CE-", "cloudEvents:", "cloudEvents_", "", "x-"]),
        st.sampled_from(["specversion", "id", "source", "type", "time", "ext", "datacontenttype"]),
    )
    | texts,
    natives | texts | st.none(),
    max_size=4,
)
_GOOD = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/", "ce-type": "t"}


@given(_tables, st.none() | texts, st.booleans())
@examples(READERS)
def test_typed_values_of_amqp(
    table: dict[str, object], content_type: str | None, whole: bool
) -> None:
    """R9: a table may hold anything that AMQP has."""
    mixed = _GOOD | table if whole else table
    answered(lambda: [rabbitmq.decode(from_table(mixed, content_type, b"{}"))])


@pytest.mark.parametrize("name", FORMATS)
@given(documents, st.integers(0, 3))
@examples(READERS)
def test_a_format_alone(name: str, document: bytes, limit: int) -> None:
    """Each reader by itself, with bytes of its own and of the other formats."""
    form = FORMATS[name]
    answered(lambda: [Decoded(form.read_event(document), ContentMode.STRUCTURED)])
    if hasattr(form, "read_batch"):
        answered(
            lambda: [
                Decoded(event, ContentMode.BATCH) for event, _ in form.read_batch(document, limit)
            ]
        )


def test_the_documents_to_be_changed_are_valid() -> None:
    """Else nothing behind the first fault would ever be tried."""
    read = 0
    for document in DOCUMENTS:
        for form in FORMATS.values():
            try:
                form.read_event(document)
            except SenderError:
                continue
            read += 1
    assert read >= len(DOCUMENTS) - 3  # three of them are batches
    for kind, messages in MESSAGES.items():
        for headers, body, content_type in messages:
            assert BINDINGS[kind].decode(Record(None, headers, body, content_type)).event.id == "1"


def test_a_moment_of_amqp_is_a_moment() -> None:
    """Else natives above would all be refused, and nothing be tried behind them."""
    record = from_table(_GOOD | {"ce-time": datetime(2026, 1, 1)}, None, b"")  # noqa: DTZ001
    assert rabbitmq.decode(record).event.attributes["time"] == "2026-01-01T00:00:00Z"
