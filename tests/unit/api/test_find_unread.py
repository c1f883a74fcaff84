"""What ``find`` says of an event while a table of the store or a log does not answer."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from app.api.access.redaction import ALL
from app.api.find.fates import StateSnapshot, fates
from app.api.find.records import FoundRecord, SearchReport, message_at
from app.api.find.rows import FoundEventRows, unread_tables
from app.api.http.slices import Slices
from app.bindings.record import Decoded
from app.errors import BrokerUnavailable, PositionOutOfRange, StoreUnavailable
from app.event.value import CloudEvent
from app.filters.explain import Explainer
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from store_samples import NOW, ORDERS, SUBSCRIPTION, a_message, an_attempt

HOUR_MS = 3_600_000
HOOK = "https://example.org/hook"


def snapshot(sink: Any = HOOK, unread: tuple[str, ...] = (), store: Any = None) -> StateSnapshot:
    """Return a state in which each position below 100 is finished."""
    subscription = Subscription.model_validate(
        {
            "id": SUBSCRIPTION,
            "source": {"broker": "log", "topics": [ORDERS.topic]},
            "sink": sink,
            "start": "earliest",
        }
    )
    status = SubscriptionStatus(id=SUBSCRIPTION, sink=HOOK, state="running")
    committed = {(SUBSCRIPTION, ORDERS.topic, ORDERS.number): "100"}
    explain = {SUBSCRIPTION: Explainer(subscription.filters)}
    return StateSnapshot(
        cast("Any", store), ALL, NOW, NOW, [subscription], explain, {}, {SUBSCRIPTION: status}, committed, {}, unread,
    )  # fmt: skip


def sighting() -> FoundRecord:
    event = CloudEvent({"specversion": "1.0", "id": "7", "source": "/s", "type": "t"})
    return FoundRecord("log", a_message(7), cast("Any", Decoded(event, "binary")))


async def fate(now: StateSnapshot, rows: FoundEventRows) -> tuple[str, str]:
    (found,) = await fates(now, rows, [sighting()], Slices())
    return found.fate, found.detail


async def test_a_finished_event_is_not_called_delivered_while_its_dead_letter_cannot_be_read() -> (
    None
):
    assert (await fate(snapshot(), FoundEventRows()))[0] == "delivered"
    told, detail = await fate(snapshot(unread=("store dead_letters",)), FoundEventRows())
    assert told == "unknown"
    assert "store dead_letters" in detail


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [("delivered", "delivered"), ("dead-letter", "unknown"), ("retry", "unknown")],
)
async def test_only_an_attempt_that_delivered_it_proves_a_fate_without_the_store(
    outcome: str, expected: str
) -> None:
    rows = FoundEventRows(attempts=[an_attempt(7, outcome=outcome)])
    told, detail = await fate(snapshot(unread=("store parked",)), rows)
    assert told == expected
    assert "discarded" not in detail


@pytest.mark.parametrize(
    ("machine_ms", "stored_ms", "expected"),
    [(NOW, NOW - HOUR_MS, "unknown"), (NOW - HOUR_MS, NOW, "delivered")],
)
async def test_an_event_expires_by_the_clock_by_which_workers_judge_it(
    machine_ms: int, stored_ms: int, expected: str
) -> None:
    """A worker does not send an expired event, and that leaves no trace in the store."""
    expirytime = datetime.fromtimestamp(NOW / 1000 - 1800, UTC).isoformat()
    now = snapshot()
    (subscription,) = now.subscriptions
    honouring = subscription.model_copy(update={"expirytime": "honour"})
    state = now._replace(now_ms=machine_ms, stored_ms=stored_ms, subscriptions=[honouring])
    seen = sighting()
    seen = seen._replace(
        message=replace(seen.message, time_ms=NOW - 2 * HOUR_MS),
        decoded=Decoded(
            CloudEvent({**seen.decoded.event.attributes, "expirytime": expirytime}), "binary"
        ),
    )
    (found,) = await fates(state, FoundEventRows(), [seen], Slices())
    assert found.fate == expected


async def test_an_event_is_not_called_pulled_while_its_queue_cannot_be_read() -> None:
    async def at(*_: object) -> None:
        raise StoreUnavailable("the store does not answer")

    store = SimpleNamespace(pulled=SimpleNamespace(at=at))
    told, _ = await fate(snapshot({"pull": {}}, store=store), FoundEventRows())
    assert told == "unknown"


def test_a_table_that_is_cut_off_is_not_read_completely_except_for_old_attempts() -> None:
    def report(where: str, until: int | None, *, complete: bool) -> SearchReport:
        return SearchReport(where=where, start_ms=None, until_ms=until, complete=complete)

    looked = [
        report("store attempts", NOW, complete=False),
        report("store parked", NOW, complete=False),
        report("store dead_letters", None, complete=False),
        report("store pulled", NOW, complete=True),
    ]
    assert unread_tables(looked) == ["store parked", "store dead_letters"]
    assert unread_tables([report("store attempts", None, complete=False)]) == ["store attempts"]


@pytest.mark.parametrize("error", [PositionOutOfRange("gone"), BrokerUnavailable("away")])
async def test_a_log_that_does_not_answer_is_not_a_log_without_the_record(error: Exception) -> None:
    class _Log:
        async def read(self, *_: object) -> Any:
            raise error
            yield

    asked = message_at(cast("Any", _Log()), ORDERS, "7")
    if isinstance(error, PositionOutOfRange):
        assert await asked is None
    else:
        with pytest.raises(BrokerUnavailable):
            await asked
