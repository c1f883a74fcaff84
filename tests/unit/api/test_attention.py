"""Which facts a status has. The table of verdicts is in ``unit/delivery/test_verdicts``."""

from __future__ import annotations

from typing import Any

import pytest

from app.api.asked.readiness import RoleReadiness
from app.api.http.views import HealthView
from app.api.status.answers import DiskView, ProducerView, SpoolView, Status
from app.api.status.attention import attention, with_attention
from app.api.status.configuration_answers import ConfigurationState, ReloadView
from app.api.subscriptions.answers import (
    ParkedOfSubscription,
    PullQueueView,
    SubscriptionView,
    retry_command,
)
from app.api.subscriptions.facts import facts_of
from app.delivery.subscription_verdicts import FAILED, LATE, STEADY, SubscriptionFacts
from app.model.cause import Cause
from app.model.operator_verdict import OperatorVerdict

UP = HealthView(healthy=True)


def a_reload(**settings: Any) -> ReloadView:
    usual = {"at": 0.0, "cause": "start", "outcome": "ok", "digest": "0"}
    lists: dict[str, list[str]] = {
        name: [] for name in ("changes", "restarted", "faults", "warnings")
    }
    return ReloadView.model_validate({**usual, **lists, **settings})


def a_subscription(**settings: Any) -> SubscriptionView:
    usual = {
        "id": "billing",
        "sink": "https://b.example/",
        "broker": "log",
        "broker_health": UP,
        "group": "g",
        "state": "running",
        "ready": True,
        "cause": "",
        "partitions": [],
        "lag": 0,
        "lag_grew": 0,
        "lag_grows_for": 0.0,
        "queue": None,
        "failures": 0,
        "failing_for": 0.0,
        "held": 0,
        "in_flight": 0,
        "waiting": 0,
        "window": 0,
        "paused_for": None,
        "oldest": None,
        "restarts": 0,
        "last_error": "",
        "parked": ParkedOfSubscription(),
        "dead_letters": {},
        "delivered": 0,
        "answers": {},
        "filter_errors": 0,
    }
    return SubscriptionView.model_validate(usual | settings)


def a_status(*subscriptions: SubscriptionView, **settings: Any) -> Status:
    usual = {
        "version": "1",
        "installation": "shop",
        "roles": ["worker"],
        "ready": True,
        "readiness": {},
        "attention": [],
        "uptime_seconds": 1.0,
        "routes": [],
        "brokers": {"log": UP},
        "store": UP,
        "disks": {},
        "counters": {},
        "subscriptions": list(subscriptions),
        "configuration": ConfigurationState(
            source="a.yaml", digest="0", taken=a_reload(), last=a_reload()
        ),
    }
    return Status.model_validate(usual | settings)


def needs(
    status: Status,
    *,
    reloaded: float | None = None,
    deleted: dict[str, dict[str, int]] | None = None,
    broken: tuple[SubscriptionFacts, ...] = (),
) -> list[tuple[str, str]]:
    found = attention(status, reloaded=reloaded, deleted=deleted or {}, broken=broken)
    return [(each.name, each.subject) for each in found]


def test_a_service_that_is_well_needs_nobody() -> None:
    """Else the exit code of ``skybridge status`` says nothing."""
    disks = {"/data": DiskView(free=50, size=100)}
    assert needs(a_status(a_subscription(oldest=2.0, lag=9), disks=disks)) == []


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        ({"state": "disabled", "cause": "disabled: the target answered 410"}, "disabled"),
        ({"failures": FAILED, "failing_for": STEADY, "held": 1}, "endpoint-fails"),
        ({"paused_for": 9.0, "failing_for": LATE}, "endpoint-fails"),
        ({"oldest": LATE + 1}, "late-events"),
        ({"lag_grew": 9, "lag_grows_for": LATE}, "lag-grows"),
        ({"queue": PullQueueView(waiting=9, most=9, oldest_seconds=1.0)}, "queue-full"),
        ({"queue": PullQueueView(waiting=1, most=9, oldest_seconds=2 * LATE)}, "unread-queue"),
        ({"parked": ParkedOfSubscription(rows=1, keys=1, oldest_seconds=0.0)}, "parked-keys"),
        ({"dead_letters": {"foreign": 1}}, "dead-letters"),
    ],
)
def test_facts_of_a_subscription_are_read_in_its_answer(
    settings: dict[str, Any], verdict: str
) -> None:
    assert needs(a_status(a_subscription(**settings))) == [(verdict, "subscription billing")]


def test_unknown_counts_are_no_facts() -> None:
    unread = PullQueueView(waiting=None, most=9, oldest_seconds=None)
    view = a_subscription(parked=None, dead_letters=None, queue=unread, failures=FAILED)
    facts = facts_of(view)
    assert facts.parked is facts.letters is facts.queued is None
    assert needs(a_status(view)) == []
    assert retry_command(view) == ""


def test_redriven_events_in_the_store_are_not_parked() -> None:
    parked = ParkedOfSubscription(rows=9, keys=3, redriven=9, oldest_seconds=2 * LATE)
    assert needs(a_status(a_subscription(parked=parked))) == []


def test_facts_of_the_service_are_read_in_the_status() -> None:
    spool = SpoolView(
        route="all",
        broker="log",
        state="spooling",
        cause="away",
        records=1,
        bytes=1,
        most=9,
        oldest_seconds=1.0,
        repeats=0,
    )
    shop = ProducerView(
        name="shop", events=1, refused=0, events_per_second=0.0, last_event_seconds=LATE + 2
    )
    status = a_status(
        a_subscription(state="disabled", ready=False),
        brokers={"main": HealthView(healthy=False, cause="connection refused"), "log": UP},
        store=HealthView(healthy=False, cause="disk full"),
        disks={"/data": DiskView(free=1, size=100)},
        spools=[spool],
        producers=[shop],
        readiness={
            "gateway": RoleReadiness(
                ready=False,
                causes=[Cause("route all: broker main: connection refused", "broker main")],
            ),
            "worker": RoleReadiness(
                ready=False,
                causes=[
                    Cause("subscription billing is disabled: gone", "subscription billing"),
                    Cause("subscription stored is broken: no broker", "subscription stored"),
                    Cause("store: disk full", "store"),
                    Cause("subscription mirror: main/copy: missing", "subscription mirror"),
                ],
            ),
        },
        configuration=ConfigurationState(
            source="a.yaml",
            digest="0",
            taken=a_reload(),
            last=a_reload(outcome="refused", cause="file"),
        ),
    )
    stored = SubscriptionFacts(id="stored", state="broken", cause="no broker")
    found = needs(status, reloaded=LATE + 1, deleted={"gone": {"status-415": 1}}, broken=(stored,))
    assert found == [
        ("broker-away", "broker main"),
        ("store-away", "store"),
        ("disk", "disk /data"),
        ("not-ready", "role worker"),
        ("cannot-run", "subscription stored"),
        ("disabled", "subscription billing"),
        ("reload-refused", "configuration"),
        ("spool-filling", "route all"),
        ("dead-letters", "subscription gone"),
        ("silent-producer", "producer shop"),
    ]


def test_verdicts_are_causes_of_the_role_that_they_concern_and_never_its_state() -> None:
    """A failing target must not take a process out of service."""
    found = [
        OperatorVerdict(
            name=name, severity="error", subject=subject, detail="d", cure="c", command="n"
        )
        for name, subject in (
            ("endpoint-fails", "subscription billing"),
            ("spool-filling", "route all"),
            ("disk", "disk /data"),
            ("broker-away", "broker main"),
        )
    ]
    ready = RoleReadiness(ready=True, causes=["broker main: away"])
    worker, gateway = (with_attention(role, ready, found) for role in ("worker", "gateway"))
    assert worker.ready
    assert worker.causes == [
        "broker main: away",
        "subscription billing: d. Cure: c",
        "disk /data: d. Cure: c",
    ]
    assert gateway.causes[1:] == ["route all: d. Cure: c", "disk /data: d. Cure: c"]
