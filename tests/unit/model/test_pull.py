"""``sink: {pull: ...}``: what may be written beside it, and what it means."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.model.pull import Pull
from app.model.subscription import Subscription

TO_BE_PULLED: dict[str, Any] = {
    "id": "s",
    "source": {"broker": "log", "topics": ["t"]},
    "sink": {"pull": {}},
}


def test_everything_but_the_word_has_a_default() -> None:
    """Event Grid's usual lock is a minute, its usual number of deliveries ten."""
    sink = Subscription.model_validate(TO_BE_PULLED).sink
    assert isinstance(sink, Pull)
    assert (sink.pull.lock, sink.pull.max_deliveries, sink.pull.max_waiting) == (60.0, 10, 1_000)


def test_what_the_api_shows_can_be_given_back_whole() -> None:
    """A subscription is pasted from GET into the file: defaults that are written out are no offence."""
    given = Subscription.model_validate(TO_BE_PULLED)
    assert Subscription.model_validate(given.model_dump(by_alias=True)) == given


@pytest.mark.parametrize(
    "settings",
    [
        {"signing": {"secret": "whsec_" + "QUJD" * 8}},
        {"auth": {"kind": "bearer", "token": "t"}},
        {"handshake": "require"},
        {"request_rate": 60},
        {"strict_webhook": True},
    ],
)
def test_what_only_webhooks_have_is_refused(settings: dict[str, Any]) -> None:
    """A signature that nobody makes would be believed in."""
    name = next(iter(settings))
    with pytest.raises(
        ValidationError,
        match=f"{name} is only for webhooks, because a pull subscription calls no target",
    ):
        Subscription.model_validate(TO_BE_PULLED | settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"timeout": "3s"},
        {"retry": {"hold": 1}},
        {"concurrency": 2},
        {"content_mode": "structured"},
        {"format": "avro"},
        {"forward_headers": ["traceparent"]},
        {"response_limit": "1KiB"},
    ],
)
def test_what_says_how_events_are_sent_is_refused(settings: dict[str, Any]) -> None:
    """A setting without effect must not look as if it had one."""
    name = next(iter(settings))
    with pytest.raises(ValidationError, match=rf"{name} has no effect.* Cure: Remove {name}\."):
        Subscription.model_validate(TO_BE_PULLED | settings)


def test_a_record_that_is_no_event_cannot_be_forwarded_to_whoever_pulls() -> None:
    """What is handed out is an event, always."""
    with pytest.raises(
        ValidationError,
        match="The setting on_foreign: forward needs a topic as sink, because foreign messages are no events and a webhook gets only events",
    ):
        Subscription.model_validate(TO_BE_PULLED | {"on_foreign": "forward"})


@pytest.mark.parametrize(
    "settings",
    [{"lock": "0s"}, {"lock": "2h"}, {"max_deliveries": 0}, {"max_waiting": 0}, {"locks": "1s"}],
)
def test_a_bound_that_makes_no_sense_is_refused(settings: dict[str, Any]) -> None:
    """A lock of no time would hand an event to two at once."""
    with pytest.raises(ValidationError):
        Subscription.model_validate(TO_BE_PULLED | {"sink": {"pull": settings}})
