"""The producer or intake of an event, by all its records: one that proves it counts before one that claims it."""

from __future__ import annotations

import pytest

from app.api.find.origins import EventOrigin, origin_of
from app.api.find.records import FoundRecord
from app.bindings import kafka
from app.bindings.record import Record
from app.model.message import Message, Partition

HEADERS = tuple(
    (f"ce_{name}", value)
    for name, value in [("specversion", b"1.0"), ("id", b"1"), ("source", b"/s"), ("type", b"t")]
)
COPIED = ("skybridge-dead-letter-cause", b"status-415")


def sighting(broker, *headers, topic="orders"):
    record = Record(None, (*HEADERS, *headers), b"1")
    message = Message(record, Partition(topic, 0), "7", 7, 0, 1)
    return FoundRecord(broker, message, kafka.decode(record))


def named(name, spelling="skybridge-producer"):
    return spelling, name


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([sighting("log", named(b"shop"))], ("shop", False)),
        ([sighting("main", named(b"shop"))], ("shop", True)),
        ([sighting("main", named(b"shop", "Skybridge-Producer"))], ("shop", True)),
        ([sighting("main", named(b"shop")), sighting("log", named(b"till"))], ("till", False)),
        ([sighting("log", named(b"shop"), COPIED)], ("shop", True)),
        ([sighting("open", named(b"shop"), topic="__spool.orders")], ("shop", False)),
        ([sighting("log"), sighting("main")], (None, False)),
        ([], (None, False)),
    ],
)
def test_a_record_proves_its_producer_only_where_no_client_can_name_it(records, found):
    producer, claimed = found
    assert origin_of({"log"}, records) == EventOrigin(producer, None, claimed)


@pytest.mark.parametrize(("broker", "claimed"), [("log", False), ("main", True)])
def test_a_record_proves_its_intake_only_where_no_client_can_name_it(broker, claimed):
    records = [sighting(broker, named(b"github", "Skybridge-Intake"))]
    assert origin_of({"log"}, records) == EventOrigin(None, "github", claimed)
