"""What ``find`` says of a waiting event: which state its subscription has, and when it is tried next."""

from __future__ import annotations

from typing import Any, cast

import pytest

from app.api.access.redaction import ALL
from app.api.find.fates import StateSnapshot, fates
from app.api.find.rows import FoundEventRows
from app.api.http.slices import Slices
from app.delivery.lane_id import lane_id
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from store_samples import NOW, ORDERS, SUBSCRIPTION, a_row

HOOK = "https://example.org/hook"


def snapshot(**state: Any) -> StateSnapshot:
    status = SubscriptionStatus(id=SUBSCRIPTION, **{"sink": HOOK, **state})
    subscription = Subscription.model_validate(
        {"id": SUBSCRIPTION, "source": {"broker": "log", "topics": ["orders"]}, "sink": HOOK}
    )
    store = cast("Any", None)
    return StateSnapshot(
        store, ALL, NOW, NOW, [subscription], {}, {}, {SUBSCRIPTION: status}, {}, {}
    )


@pytest.mark.parametrize(
    ("state", "due_ms", "next_ms"),
    [
        ({"state": "running"}, NOW + 9_000, NOW + 9_000),
        ({"state": "running"}, NOW - 9_000, NOW),
        ({"state": "paused", "paused_for": 30.0}, NOW - 9_000, NOW + 30_000),
        ({"state": "paused", "paused_for": 30.0}, NOW + 90_000, NOW + 90_000),
        ({"state": "paused"}, NOW + 9_000, None),
        ({"state": "disabled"}, NOW - 9_000, None),
    ],
)
async def test_the_next_attempt_is_never_in_the_past(
    state: dict[str, Any], due_ms: int, next_ms: int | None
) -> None:
    """While an endpoint is paused it named the end of a wait that had passed, though nothing is tried before the probe."""
    rows = FoundEventRows(parked=[a_row(1, attempts=3, due_ms=due_ms)])
    (found,) = await fates(snapshot(**state), rows, [], Slices())
    assert (found.fate, found.next_attempt_ms) == ("parked", next_ms)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"state": "running"}, ""),
        (
            {"state": "paused", "cause": "paused: a release"},
            "; the subscription is paused: a release",
        ),
        (
            {"state": "paused", "paused_for": 3.0, "cause": "most attempts fail"},
            "; the subscription waits because its target fails: most attempts fail",
        ),
        (
            {"state": "paused", "paused_for": 3.0, "sink": "pull"},
            "; the subscription waits because its pull queue is full",
        ),
        (
            {"state": "disabled", "cause": "disabled: status-410"},
            "; the subscription is disabled: the target answered 410",
        ),
    ],
)
async def test_paused_is_what_a_person_did(state: dict[str, Any], said: str) -> None:
    rows = FoundEventRows(parked=[a_row(1, attempts=3, cause="timeout")])
    (found,) = await fates(snapshot(**state), rows, [], Slices())
    assert found.detail == f"its key is parked after 3 attempts: timeout{said}"


async def test_an_event_without_a_key_parks_no_key() -> None:
    lane = lane_id(None, None, ORDERS, "1")
    rows = FoundEventRows(parked=[a_row(1, lane, attempts=3, cause="timeout")])
    (found,) = await fates(snapshot(state="running"), rows, [], Slices())
    assert found.detail == "it is parked after 3 attempts: timeout"
