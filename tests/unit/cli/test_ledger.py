"""The demo's account: it must hold when all is well, and must not when anything is wrong."""

from __future__ import annotations

import pytest

from app.cli.demo.ledger import Account, DemoLedger
from app.event.value import CloudEvent

ENDPOINT = "hook"


def event(number: int, key: str | None = "k") -> CloudEvent:
    attributes = {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t"}
    if key is not None:
        attributes["partitionkey"] = key
    return CloudEvent(attributes, b"data %d" % number)


def ledger(count: int = 3, key: str | None = "k") -> DemoLedger:
    """All accepted."""
    made = DemoLedger([event(number, key) for number in range(count)], [ENDPOINT])
    for number in range(count):
        made.accepted(str(number), {"topic": "events", "partition": 0, "position": str(number)})
    return made


def deliver(made: DemoLedger, *numbers: int, status: int = 204) -> None:
    for number in numbers:
        made.arrived(ENDPOINT, str(number), b"data %d" % number, status)


def account(made: DemoLedger, dead: int = 0) -> Account:
    return made.account({ENDPOINT: dead})


def test_all_delivered_in_order_holds() -> None:
    """The good case."""
    made = ledger()
    deliver(made, 0, 1, 2)
    assert account(made).holds


def test_a_dead_letter_balances() -> None:
    """accepted = delivered + dead-lettered."""
    made = ledger()
    deliver(made, 0, 2)
    deliver(made, 1, status=415)
    assert account(made, dead=1).holds
    assert not account(made).holds


def test_a_lost_event_does_not_hold() -> None:
    """The one thing that may never happen."""
    made = ledger()
    deliver(made, 0, 2)
    assert not account(made).holds


def test_a_refused_event_does_not_hold() -> None:
    """Everything in the feed is valid."""
    made = DemoLedger([event(0)], [ENDPOINT])
    made.refused("0", "400")
    assert not account(made).holds


def test_order_broken_within_a_key_does_not_hold() -> None:
    """Order is counted where events arrive."""
    made = ledger()
    deliver(made, 0, 2, 1)
    (line,) = account(made).lines
    assert line.order_breaks == 1
    assert not account(made).holds


def test_without_a_key_there_is_no_order_to_break() -> None:
    """Events without a key spread (rule 3)."""
    made = ledger(key=None)
    deliver(made, 2, 0, 1)
    assert account(made).holds


def test_duplicates_are_counted_and_break_nothing() -> None:
    """At least once: a second delivery is allowed, and said."""
    made = ledger()
    deliver(made, 0, 1, 0, 2)
    (line,) = account(made).lines
    assert (line.duplicates, line.order_breaks, line.delivered) == (1, 0, 3)
    assert account(made).holds


def test_changed_bytes_do_not_hold() -> None:
    """Data is compared with what was sent."""
    made = ledger(1)
    made.arrived(ENDPOINT, "0", b"other", 204)
    assert not account(made).holds


@pytest.mark.parametrize("statuses", [(503, 204), (429, 503, 200)])
def test_failed_attempts_are_attempts_and_no_deliveries(statuses: tuple[int, ...]) -> None:
    """Only a 2xx is a delivery."""
    made = ledger(1)
    for status in statuses:
        deliver(made, 0, status=status)
    (line,) = account(made).lines
    assert (line.attempts, line.delivered) == (len(statuses), 1)


def test_an_event_is_finished_when_each_endpoint_has_it_or_its_dead_letter() -> None:
    """The demo waits for exactly this."""
    made = ledger(1)
    trace = made.traces["0"]
    assert not made.is_finished(trace, {})
    assert made.is_finished(trace, {ENDPOINT: {"0"}})
    deliver(made, 0)
    assert made.is_finished(trace, {})
