"""The metrics of the lag: what is unknown is left out, and said to be unknown."""

from __future__ import annotations

import pytest

from app.api.status.families import store_families, subscription_families
from app.model.metadata import GroupLag, Lags
from app.model.subscription_status import SubscriptionStatus

KNOWN = GroupLag("g", "orders", 0, "1", 3)
OTHER_TOPIC = GroupLag("g", "payments", 0, "1", 2)
UNKNOWN = GroupLag("g", "orders", 1, None, None)
LEADERLESS = GroupLag("g", "orders", 1, "7", None)


def lag_of(lags: Lags) -> tuple[object, object]:
    """Return the values of the lag, and whether it is known."""
    status = SubscriptionStatus(id="a", sink="https://a.example/", state="running", group="g")
    values = {
        family.name: family.values
        for family in subscription_families([status], lags)
        if family.name.startswith("subscription_lag")
    }
    return values["subscription_lag"], values["subscription_lag_known"][("a",)]


@pytest.mark.parametrize(
    ("lags", "values", "known"),
    [
        (Lags([KNOWN, OTHER_TOPIC]), {("a", "orders"): 3, ("a", "payments"): 2}, True),
        (Lags([KNOWN, UNKNOWN, OTHER_TOPIC]), {("a", "payments"): 2}, False),
        (Lags([], ["g"]), {}, False),
        (Lags([LEADERLESS]), {}, False),
        (Lags(), {}, True),
        (Lags([UNKNOWN]), {}, True),  # it has not begun, and perhaps never can
    ],
)
def test_a_topic_with_an_unknown_partition_has_no_sample(lags, values, known) -> None:
    """A partial sum was told as the lag of the topic. A subscription that cannot begin must not make workers start."""
    assert lag_of(lags) == (values, known)


@pytest.mark.parametrize(("letters", "parked", "up"), [({}, {}, 1), (None, {}, 0), ({}, None, 0)])
def test_a_store_that_does_not_answer_is_not_up(letters, parked, up) -> None:
    values = {family.name: family.values for family in store_families(letters, parked)}
    assert values["store_up"] == {(): up}
