"""An expression that fails on an event is a ``filter_error`` of its subscription, whoever looks: the worker or the log."""

from __future__ import annotations

from typing import cast

import pytest

from app.bindings.record import Record
from app.bindings.table import BINDINGS
from app.filters.selection import Selection
from app.model.message import Message, Partition
from app.telemetry import Counters
from app.worker.attempts import AttemptLog
from app.worker.decode_and_filter import DeliveryReader
from app.worker.delivery import Delivery, DeliveryOrigin
from worker_doubles import a_subscription

HEADERS = (
    ("ce_specversion", b"1.0"), ("ce_id", b"7"), ("ce_source", b"/shop"), ("ce_type", b"order"),
    ("content-type", b"application/json"),
)  # fmt: skip
LARGE = {"sql": "DATA('/total') > 100"}


def record(total: str) -> Record:
    return Record(None, HEADERS, f'{{"total": {total}}}'.encode())


ORIGIN = cast("DeliveryOrigin", None)  # nothing is asked of it here


def a_reader(counters: Counters, *filters: dict[str, object]) -> tuple[DeliveryReader, AttemptLog]:
    attempts = AttemptLog("billing", counters)
    subscription = a_subscription(filters=list(filters))
    selection = Selection(subscription.filters, attempts.count_filter_error)
    return DeliveryReader(subscription, selection, BINDINGS["kafka"].decode), attempts


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        ("199.9", None),
        ("250.0", None),
        ("1e3", None),
        ("99.9", "filtered"),
        ('"much"', "filter_error"),
    ],
)
def test_orders_of_any_spelling_are_wanted_and_failures_told(
    total: str, expected: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Issue 16: an order of 199.9 was filtered out in silence. What cannot be compared is told, without its data."""
    counters = Counters()
    reading, _ = a_reader(counters, LARGE)
    found = reading.read(Message(record(total), Partition("orders", 0), "7", 7, 1, 1), ORIGIN)
    assert (None if isinstance(found, Delivery) else found) == expected
    failed = {("subscription", "billing"): 1} if expected == "filter_error" else {}
    assert counters.values().get("filter_errors", {}) == failed
    assert len(caplog.messages) == len(failed)
    assert "much" not in caplog.text


def test_a_failure_that_does_not_decide_is_counted_and_the_event_delivered() -> None:
    """Another filter may want it all the same."""
    counters = Counters()
    reading, _ = a_reader(counters, {"any": [LARGE, {"exact": {"id": "7"}}]})
    found = reading.read(Message(record("null"), Partition("orders", 0), "7", 7, 1, 1), ORIGIN)
    assert isinstance(found, Delivery)
    assert counters.values()["filter_errors"] == {("subscription", "billing"): 1}


def test_what_the_log_leaves_out_is_counted_apart() -> None:
    """The embedded log evaluates the filters itself, and reports a number of events later."""
    counters = Counters()
    reading, attempts = a_reader(counters, LARGE)
    wanted = reading.consumer_filter(attempts.count_filtered)
    selection = wanted.selection
    events = [wanted.decode(record(each)).event for each in ("5", "null", "99.5", "500")]
    found = [(selection.holds(event), selection.failed) for event in events]
    assert found == [(False, False), (False, True), (False, False), (True, False)]
    wanted.passed(2, 1)
    wanted.passed(2, 0)
    assert counters.values()["deliveries"] == {
        ("billing", "filtered"): 4,
        ("billing", "filter_error"): 1,
    }
