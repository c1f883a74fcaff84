"""The object of the CloudEvents Subscriptions API draft and ours, either way (spec.md 6.1)."""

from __future__ import annotations

import pytest

from app.model.draft import from_draft, to_draft
from app.model.subscription import Subscription

DRAFT = {
    "id": "billing",
    "source": "/shop",
    "types": ["order.created", "order.paid"],
    "config": {"broker": "log", "topics": ["events"], "concurrency": 8},
    "filters": [{"suffix": {"subject": ".eu"}}],
    "sink": "https://billing.example/hook",
    "protocol": "HTTP",
    "sinkcredential": {"credentialtype": "PLAIN", "identifier": "me", "secret": "s3"},
}
OURS = {
    "id": "billing",
    "concurrency": 8,
    "source": {"broker": "log", "topics": ["events"]},
    "filters": [
        {"exact": {"source": "/shop"}},
        {"any": [{"exact": {"type": "order.created"}}, {"exact": {"type": "order.paid"}}]},
        {"suffix": {"subject": ".eu"}},
    ],
    "sink": "https://billing.example/hook",
    "auth": {"kind": "basic", "username": "me", "password": "s3"},
}


def test_everything_of_the_draft_has_its_place():
    document, faults = from_draft(DRAFT)
    assert (document, faults) == (OURS, [])
    Subscription.model_validate(document)


def test_and_back_again():
    assert to_draft(OURS) == DRAFT


@pytest.mark.parametrize(
    "ours",
    [
        {"filters": []},
        {"filters": [{"sql": "TRUE"}]},
        {"filters": [{"any": [{"exact": {"type": "a"}}, {"prefix": {"type": "b"}}]}]},
        {"filters": [{"exact": {"source": "/s", "type": "t"}}]},
        {"filters": [{"any": [{"exact": {"type": "a"}}]}, {"exact": {"source": "/s"}}]},
        {"auth": {"kind": "bearer", "token": "t"}},
        {"auth": {"kind": "bearer", "token": "t", "sent_in": "query"}},
        {"auth": {"kind": "api_key", "secret": "t"}},
        {"retry": {"schedule": ["1s"]}, "paused": True, "start": "earliest"},
    ],
)
def test_what_the_draft_has_no_word_for_is_not_lost(ours):
    """Whatever the API shows in the draft's words can be sent back as it is."""
    document = {**OURS, **ours}
    draft = to_draft(document)
    back, faults = from_draft(draft)
    assert faults == []
    assert Subscription.model_validate(back) == Subscription.model_validate(document)


@pytest.mark.parametrize("sink", [{"broker": "main", "topic": "t"}, {"pull": {}}])
def test_a_sink_that_is_no_url_has_no_words(sink):
    assert to_draft({**OURS, "sink": sink}) is None


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"protocol": "KAFKA"}, "/protocol"),
        ({"protocol": "http"}, "/protocol"),
        ({"protocolsettings": {"headers": ["a"]}}, "/protocolsettings/headers"),
        ({"protocolsettings": {"keys": {"a": "b"}}}, "/protocolsettings/keys"),
        ({"config": {"headers": {"a": "b"}}}, "/config/headers"),
        ({"protocolsettings": {"method": "PUT"}}, "/protocolsettings/method"),
        ({"sinkcredential": {"credentialtype": "REFRESHTOKEN"}}, "/sinkcredential/credentialtype"),
        (
            {"sinkcredential": {"credentialtype": "PLAIN", "password": "x"}},
            "/sinkcredential/password",
        ),
        ({"unknown": 1}, "/unknown"),
        ({"types": "one"}, "/types"),
        ({"source": 7}, "/source"),
        ({"filters": {}}, "/filters"),
        ({"config": []}, "/config"),
        ({"config": {"sink": "https://other.example/"}}, "/config/sink"),
        ({"config": {"auth": {"kind": "bearer", "token": "t"}}}, "/config/auth"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(change, at):
    """Case-sensitive protocols, and nothing taken in silence (draft 3.2.1)."""
    _, faults = from_draft({**DRAFT, **change})
    assert at in [fault.at for fault in faults]


def test_every_fault_is_told_at_once():
    _, faults = from_draft({"protocol": "MQTT5", "types": 3, "filters": 4, "odd": 5})
    assert {fault.at for fault in faults} == {"/protocol", "/types", "/filters", "/odd"}
