"""``on_foreign: wrap`` on the way out: filtered, in its lane, and the same event each time."""

from __future__ import annotations

from typing import cast

import pytest

from app.bindings.record import Record
from app.bindings.table import BINDINGS
from app.delivery.lane_id import lane_id
from app.filters.selection import Selection
from app.model.message import Message, Partition
from app.worker.decode_and_filter import DeliveryReader
from app.worker.delivery import Delivery, DeliveryOrigin
from worker_doubles import a_subscription, an_event

FOREIGN = Record(b"k", (("x-kind", b"order"),), b"1,2")


def message(record: Record = FOREIGN, *, position: str = "7", time_ms: int = 1, epoch: int = 1):
    return Message(record, Partition("orders", 2), position, 7, time_ms, epoch)


ORIGIN = cast("DeliveryOrigin", None)  # nothing is asked of it here


def a_reader(*, lasting: bool = True, **settings: object) -> DeliveryReader:
    subscription = a_subscription(on_foreign="wrap", **settings)
    selection = Selection(subscription.filters)
    return DeliveryReader(subscription, selection, BINDINGS["kafka"].decode, lasting=lasting)


def test_a_record_that_is_no_event_becomes_one() -> None:
    held = a_reader().read(message(), ORIGIN)
    assert isinstance(held, Delivery)
    assert held.decoded is not None
    assert held.decoded.event.source == "urn:skybridge:record:log/orders"
    assert held.decoded.event.id == "2:7"


def lane_of(body: bytes, *headers: tuple[str, bytes]) -> bytes:
    reader = a_reader(order_by={"pointer": "/customer/id"})
    held = reader.read(message(Record(None, headers, body)), ORIGIN)
    assert isinstance(held, Delivery)
    return held.lane


def test_records_of_others_are_in_line_by_a_value_of_their_data() -> None:
    """With no key and no content type, as most are; without a value each stands alone."""
    where = Partition("orders", 2)
    own = lane_id(None, None, where, "7")
    assert lane_of(b'{"customer": {"id": "c7"}}') == lane_id(None, "c7", where, "7")
    assert lane_of(b'{"customer": {"id": 12}}') == lane_id(None, "12", where, "7")
    assert lane_of(b'{"customer": {"id": null}}') == own
    assert lane_of(b"1,2") == own
    assert lane_of(b'{"customer": {"id": "c7"}}', ("content-type", b"text/plain")) == own


def test_an_event_stays_as_it_is() -> None:
    held = a_reader().read(message(an_event(5)), ORIGIN)
    assert isinstance(held, Delivery)
    assert held.decoded is not None
    assert held.decoded.event.id == "5"


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ({"exact": {"type": "dev.skybridge.record"}}, True),
        ({"exact": {"partitionkey": "k"}}, True),
        ({"sql": "recordheaders LIKE '%x-kind%order%'"}, True),
        ({"exact": {"type": "other"}}, False),
    ],
)
def test_filters_see_the_wrapped_event(wanted: dict[str, object], taken: bool) -> None:
    found = a_reader(filters=[wanted]).read(message(), ORIGIN)
    assert isinstance(found, Delivery) if taken else found == "filtered"


def test_its_lane_is_that_of_its_key_or_attribute() -> None:
    """Rule 3: order per key holds for what is wrapped too."""
    lanes = [
        held.lane
        for held in (
            a_reader().read(message(), ORIGIN),
            a_reader(order_by="partitionkey").read(message(), ORIGIN),
        )
        if isinstance(held, Delivery)
    ]
    partition = message().partition
    assert lanes == [lane_id(b"k", None, partition, "0"), lane_id(None, "k", partition, "0")]


@pytest.mark.parametrize("lasting", [True, False])
def test_a_redelivery_is_the_same_event(lasting: bool) -> None:
    """Also where each delivery has a position and a time of its own, as in queues of RabbitMQ."""
    other = {} if lasting else {"position": "9-8", "time_ms": 99}
    reads = [
        a_reader(lasting=lasting).read(one, ORIGIN)
        for one in (message(), message(epoch=2, **other))
    ]
    first, second = (held.decoded for held in reads if isinstance(held, Delivery))
    assert first == second
