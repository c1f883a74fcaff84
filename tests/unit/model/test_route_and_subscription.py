"""Routes and subscriptions: what may be written, and what it means."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.model.route import Filter, KeyPolicy, Route
from app.model.start import Start
from app.model.subscription import Subscription

SUBSCRIPTION: dict[str, Any] = {
    "id": "s",
    "source": {"broker": "log", "topics": ["t"]},
    "sink": "https://example.org/hook",
}
ROUTE: dict[str, Any] = {"name": "r", "to": {"broker": "log", "topic": "t"}}


def subscription(**settings: Any) -> Subscription:
    return Subscription.model_validate(SUBSCRIPTION | settings)


def test_one_target_may_be_written_without_a_list() -> None:
    """The usual route has one."""
    assert Route.model_validate(ROUTE).to == Route.model_validate(ROUTE | {"to": [ROUTE["to"]]}).to


@pytest.mark.parametrize(
    "settings",
    [{"to": []}, {"name": ""}, {"name": "a/b"}, {"name": "n" * 128}, {"content_mode": "batch"}, {"too": 1}, {"to": {"broker": "b", "topic": ""}}],
)  # fmt: skip
def test_a_wrong_route_is_refused(settings: dict[str, Any]) -> None:
    """Names stand in URLs, metrics and group names; a misspelt setting must not become a default."""
    with pytest.raises(ValidationError):
        Route.model_validate(ROUTE | settings)


@pytest.mark.parametrize(
    "argument",
    [{}, {"exact": {}}, {"exact": {"type": ""}}, {"exact": {"Type": "x"}}, {"exact": {"type": "x"}, "prefix": {"type": "x"}}, {"regex": {"type": "x"}}, {"sql": "TRUE AND"}, {"exact": None}],
)  # fmt: skip
def test_a_wrong_filter_is_refused(argument: dict[str, Any]) -> None:
    """Spec 6.1: an unknown dialect must be rejected; names and values are not empty."""
    with pytest.raises(ValidationError):
        Filter.model_validate(argument)


@pytest.mark.parametrize(
    "policy",
    [
        {"mapper": "attribute"},
        {"mapper": "template"},
        {"mapper": "pointer"},
        {"mapper": "hash"},
        {"mapper": "hash", "attributes": []},
        {"mapper": "pointer", "pointer": "order/id"},
        {"mapper": "pointer", "pointer": "/a~2"},
        {"mapper": "partitionkey", "attribute": "subject"},
        {"mapper": "attribute", "attribute": "Subject"},
        {"mapper": "none", "missing": "reject"},
        {"mapper": "other", "attribute": "subject"},
        {"mapper": "no name"},
    ],
)
def test_a_wrong_key_policy_is_refused(policy: dict[str, Any]) -> None:
    """Each mapper takes its own argument; none with reject would refuse every event."""
    with pytest.raises(ValidationError):
        KeyPolicy.model_validate(policy)


@pytest.mark.parametrize(
    "start",
    [
        "earliest",
        "latest",
        {"time": "2026-01-01T00:00:00Z"},
        {"time": "2026-01-01T02:00:00.5+02:00"},
        {"position": {0: "12", 3: "x"}},
    ],
)
def test_each_start_is_kept_as_it_was_written(start: Any) -> None:
    """Rule 10: earliest, latest, a time or a position; what GET returns can be pasted back."""
    made = subscription(start=start)
    assert made.model_dump(exclude_defaults=True).get("start", "latest") == start


def test_a_position_may_be_written_as_a_number() -> None:
    """{0: 12} is what people write; a position is text all the same."""
    start = subscription(start={"position": {"0": 12}}).start
    assert isinstance(start, Start)
    assert start.position == {0: "12"}


@pytest.mark.parametrize(
    "settings",
    [
        {"start": "soon"},
        {"start": {}},
        {"start": {"time": "2026-01-01T00:00:00"}},  # which zone?
        {"start": {"time": "2026-01-01T00:00:00Z", "position": {0: "1"}}},
        {"start": {"position": {-1: "1"}}},
        {"sink": "ftp://example.org"},
        {"sink": "https://"},
        {"concurrency": 0},
        {"retry": {"schedule": []}},
        {"retry": {"statuses": [200]}},
        {"order_by": "data"},
        {"order_by": "subject", "ordering": "none"},
        {"order_by": {"pointer": "/id"}, "ordering": "none"},
        {"order_by": {"pointer": "id"}},
        {"order_by": {"pointer": "/a~2"}},
        {"order_by": {}},
        {"order_by": {"pointer": "/id", "attribute": "subject"}},
        {"headers": {"X-Tenant": "eu"}},
        {"headers": {"ce-tenant": "eu"}},
        {"headers": {"content-length": "5"}},
        {"headers": {"content-type": "text/plain"}},
        {"headers": {"host": "other"}},
        {"headers": {"connection": "close"}},
        {"headers": {"transfer-encoding": "chunked"}},
        {"headers": {"authorization": "Bearer x"}},
        {"headers": {"webhook-id": "1"}},
        {"headers": {"x-foreign-ce-id": "1"}},
        {"headers": {"x tenant": "eu"}},
        {"headers": {"x-tenant": ""}},
        {"headers": {"x-tenant": "a\nb"}},
        {"headers": {"x-tenant": "a\x01b"}},
        {"headers": {"x-tenant": " eu"}},
        {"headers": {f"x-{n}": "1" for n in range(33)}},
        {"headers": {"traceparent": "1"}},
        {"headers": {"x-tenant": "eu"}, "forward_headers": ["x-tenant"]},
        {"headers": {"x-tenant": "eu"}, "forward_headers": ["x-*"]},
        {"headers": {"x-api-key": "a"}, "auth": {"kind": "api_key", "secret": "b"}},
        {"headers": {"x-tenant": "eu"}, "sink": {"broker": "log", "topic": "t"}},
        {"headers": {"x-tenant": "eu"}, "sink": {"pull": {}}},
        {"source": {"broker": "log", "topics": []}},
    ],
)
def test_a_wrong_subscription_is_refused(settings: dict[str, Any]) -> None:
    """What would deliver nothing, or not what was meant, is told at once."""
    with pytest.raises(ValidationError):
        subscription(**settings)


def test_defaults_are_the_documented_ones() -> None:
    """Rules 3, 4 and 7 name these figures; users plan with them."""
    made = subscription()
    assert made.retry.schedule == (0.1, 0.5, 2, 10, 60, 300, 1800, 7200, 18000, 36000, 86400)
    assert (made.retry.hold, made.retry.retry_after_max) == (3, 86400)
    assert made.retry.statuses == (404, 408, 409, 425, 429)
    assert (made.timeout, made.window, made.response_limit) == (15, 10_000, 65_536)
    assert (made.ordering, made.content_mode, made.start) == ("per_key", "binary", "latest")


def test_values_are_frozen() -> None:
    """A configuration in force changes only by a reload."""
    with pytest.raises(ValidationError):
        subscription().window = 5  # type: ignore[misc]
