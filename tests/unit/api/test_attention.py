"""What of a status needs a person: the words, the order, and the command that repairs it."""

from __future__ import annotations

from typing import Any

import pytest

from app.api.asked.readiness import RoleReadiness
from app.api.http.views import HealthView
from app.api.status.answers import DiskView, Status
from app.api.status.attention import LATE, attention
from app.api.status.configuration_answers import ConfigurationState, ReloadView
from app.api.subscriptions.answers import ParkedOfSubscription, SubscriptionView

UP = HealthView(healthy=True)


def a_reload(**settings: Any) -> ReloadView:
    usual = {"at": 0.0, "cause": "start", "outcome": "ok", "digest": "0"}
    lists = {name: [] for name in ("changes", "restarted", "faults", "warnings")}
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


def told(status: Status) -> list[tuple[str, str]]:
    return [(each.subject, each.next) for each in attention(status)]


def test_nothing_is_told_of_a_service_that_is_well() -> None:
    """Else the exit code of ``skybridge status`` says nothing."""
    disks = {"/data": DiskView(free=50, size=100)}
    assert told(a_status(a_subscription(oldest=2.0, lag=9), disks=disks)) == []


@pytest.mark.parametrize(
    ("settings", "command", "words"),
    [
        (
            {"state": "disabled", "cause": "disabled: the target answered 410"},
            "skybridge subscriptions resume billing",
            "disabled, nothing is sent: the target answered 410",
        ),
        (
            {"state": "broken", "cause": "there is no broker main"},
            "skybridge subscriptions show billing",
            "broken: there is no broker main",
        ),
        (
            {"state": "paused", "paused_for": 9.0, "oldest": LATE + 60, "cause": "503"},
            "skybridge retry billing",
            "its oldest event has waited for 6 min: 503",
        ),
        (
            {"oldest": 90_000.0, "last_error": "retry 500"},
            "skybridge attempts --subscription billing",
            "its oldest event has waited for 1 d 1 h: retry 500",
        ),
        (
            {"parked": ParkedOfSubscription(rows=5, keys=2, oldest_seconds=7_300.0)},
            "skybridge retry billing",
            "5 events of 2 keys are parked, the oldest for 2 h 1 min",
        ),
        (
            {"dead_letters": {"status-415": 2, "max-age": 1}},
            "skybridge dead-letters redrive --subscription billing",
            "dead letters (max-age: 1, status-415: 2). Repair the target, then redrive or discard them",
        ),
    ],
)
def test_a_subscription_in_trouble_is_told_with_its_command(
    settings: dict[str, Any], command: str, words: str
) -> None:
    (found,) = attention(a_status(a_subscription(**settings)))
    assert (found.subject, found.next, found.detail) == ("subscription billing", command, words)


@pytest.mark.parametrize(
    "settings",
    [
        {"state": "paused", "cause": "paused: migration", "oldest": 2 * LATE},  # by a person
        {"state": "paused", "paused_for": 9.0, "oldest": LATE - 1},
        {"state": "starting"},
        {"state": "elsewhere"},
        {"parked": ParkedOfSubscription(rows=1, keys=1, oldest_seconds=LATE - 1)},
    ],
)
def test_what_recovers_by_itself_or_was_asked_for_is_not_told(settings: dict[str, Any]) -> None:
    assert told(a_status(a_subscription(**settings))) == []


def test_the_gravest_comes_first_and_nothing_comes_twice() -> None:
    """Readiness names brokers, store and subscriptions too."""
    status = a_status(
        a_subscription(state="disabled", ready=False),
        brokers={"main": HealthView(healthy=False, cause="connection refused"), "log": UP},
        store=HealthView(healthy=False, cause="disk full"),
        disks={"/data": DiskView(free=1, size=100)},
        readiness={
            "gateway": RoleReadiness(
                ready=False, causes=["route all: broker main: connection refused"]
            ),
            "worker": RoleReadiness(
                ready=False,
                causes=[
                    "subscription billing is disabled: gone",
                    "store: disk full",
                    "subscription mirror: main/copy: there is no such topic",
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
    assert told(status) == [
        ("broker main", "skybridge check a.yaml --connect"),
        ("store", "skybridge check a.yaml --connect"),
        ("disk /data", "df -h /data"),
        ("role worker", "skybridge check a.yaml --connect"),
        ("subscription billing", "skybridge subscriptions resume billing"),
        ("configuration", "skybridge check a.yaml"),
    ]
