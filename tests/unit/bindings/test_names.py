"""A record that is almost an event is found by the attributes that it has."""

from __future__ import annotations

from decimal import Decimal

import pytest

from app.bindings.record import Record
from app.bindings.table import BINDINGS
from app.errors import SenderError
from app.formats.avro_schema import write_record
from app.formats.protobuf_schema import messages

WHOLE = {"id": "A-1", "source": "/shop", "type": "made"}
JSON = "application/cloudevents+json"
PREFIXES = {"embedded": "ce_", "kafka": "ce_", "rabbitmq": "ce-", "pulsar": "CE-"}


def named(**attributes: str) -> dict[str, str]:
    return {"specversion": "1.0", **WHOLE, **attributes}


def in_headers(prefix: str, attributes: dict[str, str]) -> Record:
    def name(attribute: str) -> str:
        return prefix + (attribute.capitalize() if prefix == "CE-" else attribute)

    headers = tuple((name(each), value.encode()) for each, value in attributes.items())
    return Record(b"k", headers, b"data")


def document(body: bytes, media_type: str = JSON) -> Record:
    return Record(b"k", (("content-type", media_type.encode()),), body)


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in WHOLE.items() if name not in names}


@pytest.mark.parametrize("kind", BINDINGS)
@pytest.mark.parametrize(
    ("wrong", "missing"),
    [
        ({"time": "yesterday"}, ()),
        ({"source": ""}, ("source",)),
        ({"subject": ""}, ()),
        ({"dataschema": "no URI"}, ()),
    ],
)
def test_of_headers(kind, wrong, missing):
    record = in_headers(PREFIXES[kind], named(**wrong))
    with pytest.raises(SenderError):
        BINDINGS[kind].decode(record)
    assert BINDINGS[kind].names(record) == without(*missing)


@pytest.mark.parametrize("kind", BINDINGS)
@pytest.mark.parametrize(
    ("body", "missing"),
    [
        (b'{"specversion":"1.0","id":"A-1","source":"/shop","type":"made","time":"x"}', ()),
        (b'{"specversion":"1.0","id":"A-1","source":"/shop"}', ("type",)),
        (b'{"specversion":"1.0","id":1,"source":"/shop","type":"made"}', ("id",)),
        (b'{"specversion":"1.0","id":"A-1","source":"/shop","type":"made","x":1,"x":2}', ()),
        (b'{"specversion":"1.0","id":"A-1","source":"/shop","type":"made","X":1}', ()),
        (b'{"id":"A-1","source":"/shop","type":"made","data":%b}' % (b"7" * 5_000), ()),
        (
            b'{"cloudEventsVersion":"0.1","eventID":"A-1","source":"","eventType":"made"}',
            ("source",),
        ),
        (b'{"specversion":"1.0","id":"A-1"', ("id", "source", "type")),
        (b"[1]", ("id", "source", "type")),
        (b"[" * 100_000, ("id", "source", "type")),
    ],
)
def test_of_a_json_document(kind, body, missing):
    record = document(body)
    with pytest.raises(SenderError):
        BINDINGS[kind].decode(record)
    assert BINDINGS[kind].names(record) == without(*missing)


def test_of_a_protobuf_document():
    message = messages().event(id="A-1", source="/shop", type="made")  # without a version
    record = document(bytes(message.SerializeToString()), "application/cloudevents+protobuf")
    assert BINDINGS["kafka"].names(record) == WHOLE
    record = document(b"\xff", "application/cloudevents+protobuf")
    assert BINDINGS["kafka"].names(record) == {}


def test_of_an_avro_document():
    entries = [{"name": name, "value": ("string", value)} for name, value in WHOLE.items()]
    body = write_record({"attribute": entries, "data": None})
    record = document(body, "application/cloudevents+avro")
    assert BINDINGS["kafka"].names(record) == WHOLE
    assert BINDINGS["kafka"].names(document(b"\x01", "application/cloudevents+avro")) == {}


def test_a_document_goes_before_mirrored_headers():
    record = in_headers("ce_", {"id": "mirrored", "source": "/mirrored"})
    headers = (*record.headers, ("content-type", JSON.encode()))
    body = b'{"id":"A-1","type":"made"}'
    found = BINDINGS["kafka"].names(Record(None, headers, body))
    assert found == {"id": "A-1", "source": "/mirrored", "type": "made"}


def test_of_typed_values_and_of_what_is_no_event_at_all():
    natives = {"ce-weight": Decimal("1.5")}
    record = in_headers("ce-", named())
    wrong = Record(None, (*record.headers, ("ce-weight", None)), b"x", natives=natives)
    assert BINDINGS["rabbitmq"].names(wrong) == WHOLE
    assert BINDINGS["kafka"].names(Record(None, (("a", b"1"),), b"no event")) == {}
    assert BINDINGS["kafka"].names(Record(None, (), None)) == {}


def test_text_that_no_store_holds_is_readable():
    record = document(b'{"specversion":"1.0","id":"a\\ud83d","source":"/shop"}')
    assert BINDINGS["kafka"].names(record) == {"id": "a?", "source": "/shop"}
