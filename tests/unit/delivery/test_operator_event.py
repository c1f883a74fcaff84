"""Operator events are CloudEvents like anybody's."""

from __future__ import annotations

import json

import pytest

from app.api.access.audit_trail import published
from app.delivery.operator_event import KINDS, make
from app.errors import InvalidEvent
from app.interfaces import AuditEntry, notify

WORDS = {notify.DISABLED, notify.ENABLED, notify.PAUSED, notify.LAGGING, notify.DEAD_LETTERED}
WORDS |= {notify.SPOOLING, notify.SPOOLED, *notify.AUDITED.values()}


def an_event(kind="disabled", **given):
    settings = {"id_": "1", "source": "/skybridge/shop", "time": "2026-01-01T00:00:00Z", **given}
    return make(kind, "billing", {"cause": "status-410"}, **settings)


def test_every_word_of_the_callable_has_a_type():
    """A kind that nobody knows would be told to nobody."""
    assert set(KINDS) == WORDS


def test_the_data_of_an_audited_event_is_described():
    """The reference lists the members of the data."""
    entry = AuditEntry(kind="look", at_ms=0, who="ana", address="", operation="peek")
    kinds = [kind for kind in KINDS.values() if kind.about == "operation"]
    assert [set(kind.data) for kind in kinds] == [set(published(entry))] * 3


def test_an_event_of_a_spool_names_its_route():
    event = make(
        "spooling", "orders", {"cause": "away"}, id_="1", source="/s", time="2026-01-01T00:00:00Z"
    )
    assert event.type == "dev.skybridge.route.spooling"
    assert event.attributes["subject"] == "orders"
    assert json.loads(event.data) == {"route": "orders", "cause": "away"}


def test_it_names_the_subscription_as_subject_key_and_in_its_data():
    """Subject and key: what is told of one subscription stays in order and can be filtered."""
    event = an_event()
    assert event.type == "dev.skybridge.subscription.disabled"
    assert event.attributes["subject"] == event.attributes["partitionkey"] == "billing"
    assert json.loads(event.data) == {"subscription": "billing", "cause": "status-410"}


def test_an_entry_of_the_audit_belongs_to_no_subscription():
    """Its subject is the operation."""
    told = {"id_": "1", "source": "/skybridge/shop", "time": "2026-01-01T00:00:00Z"}
    event = make("audited-change", "pause_subscription", {"who": "ana"}, **told)
    assert event.type == "dev.skybridge.audit.change"
    assert event.attributes["subject"] == "pause_subscription"
    assert json.loads(event.data) == {"who": "ana"}


@pytest.mark.parametrize("wrong", [{"id_": ""}, {"source": ""}, {"time": "yesterday"}])
def test_what_is_no_cloudevent_is_refused_as_anybody_elses(wrong):
    """Our own events pass the same core (core 1.3)."""
    with pytest.raises(InvalidEvent):
        an_event(**wrong)
