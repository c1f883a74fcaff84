"""What needs a person: the table facts, verdict, cure."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from app.delivery.service_verdicts import SILENT, SenderFacts, ServiceFacts, SpoolFacts, verdicts
from app.delivery.subscription_verdicts import (
    FAILED,
    GRACE,
    LATE,
    STEADY,
    SubscriptionFacts,
    subscription_verdicts,
)
from app.model.cause import Cause
from app.model.operator_verdict import VerdictName
from app.model.subscription_status import PAUSED_BY_CONFIGURATION

Facts = dict[str, Any]
REDRIVE = "skybridge dead-letters redrive --subscription billing"
DISCARD = "skybridge dead-letters discard --subscription billing"
RETRY = "skybridge retry billing"
SHOW = "skybridge subscriptions show billing"
RESUME = "skybridge subscriptions resume billing"
ATTEMPTS = "skybridge attempts --subscription billing"
PULL = "skybridge pull billing"
FAILING = {"failures": FAILED, "failing_for": STEADY, "last_error": "500"}
FULL = {"queue_bound": 10, "queued": 10}

OF_SUBSCRIPTION: list[tuple[str, Facts, list[tuple[str, str, str]]]] = [
    ("well", {"lag": 900, "held": 9, "oldest": LATE}, []),
    ("starting", {"state": "starting"}, []),
    ("elsewhere", {"state": "elsewhere"}, []),
    ("no lag known", {"lag": None}, []),
    ("no lag known, which grew before", {"lag": None, "lag_grew": 9, "lag_grows_for": LATE}, []),
    ("no count known", {"parked": None, "letters": None, "queued": None, "queue_bound": 9}, []),
    ("failed, and no count known", {**FAILING, "parked": None, "letters": None}, []),
    (
        "failed a moment ago, and dead letters unknown",
        {**FAILING, "failing_for": 0.1, "held": 3, "letters": None},
        [],
    ),
    (
        "failing with dead letters, and it is unknown whether events are parked",
        {**FAILING, "held": 1, "parked": None, "letters": {"status-415": 1}},
        [
            ("endpoint-fails", "the target fails, the last 3 attempts failed: 500", RETRY),
            ("dead-letters", "dead letters (status-415: 1)", REDRIVE),
        ],
    ),
    (
        "broker away",
        {"broker": "main", "broker_cause": "refused", **FAILING, "lag": 1},
        [("broker-away", "broker main does not answer: refused", SHOW)],
    ),
    (
        "broken",
        {"state": "broken", "cause": "there is no broker main", "broker_cause": "no such"},
        [("cannot-run", "broken: there is no broker main", SHOW)],
    ),
    (
        "stopped",
        {"state": "stopped", "cause": "the position is gone"},
        [("cannot-run", "stopped: the position is gone", SHOW)],
    ),
    (
        "disabled",
        {"state": "disabled", "cause": "disabled: status-410", **FAILING, "lag": 3},
        [("disabled", "disabled, nothing is sent: the target answered 410", RESUME)],
    ),
    (
        "restarting",
        {"state": "restarting", "cause": "TypeError"},
        [("restarting", "restarting: TypeError", SHOW)],
    ),
    (
        "paused by an operator",
        {"state": "paused", "cause": "paused: migration", "oldest": 2 * LATE, **FAILING, "lag": 3},
        [("paused", "paused: migration. Its events wait in the log", RESUME)],
    ),
    (
        "paused by its configuration",
        {"state": "paused", "cause": "paused by its configuration"},
        [("paused", "paused by its configuration. Its events wait in the log", SHOW)],
    ),
    ("breaker open for a moment", {"state": "paused", "paused_for": 1.0, "failures": 1}, []),
    (
        "breaker open",
        {"state": "paused", "paused_for": 9.0, **FAILING, "lag": 1},
        [("endpoint-fails", "the target fails, the last 3 attempts failed: 500", RETRY)],
    ),
    (
        "breaker open because the target asked to wait",
        {"state": "paused", "paused_for": 900.0, "failures": 1, "failing_for": GRACE},
        [("endpoint-fails", "the target fails, the last attempt failed", RETRY)],
    ),
    (
        "last success older than the last failures",
        {**FAILING, "held": 1},
        [("endpoint-fails", "the target fails, the last 3 attempts failed: 500", RETRY)],
    ),
    (
        "failed a moment ago, and nothing was given up",
        {**FAILING, "failing_for": 0.1, "held": 3},
        [("endpoint-fails", "the target fails, the last 3 attempts failed: 500", RETRY)],
    ),
    ("failed once or twice", {"failures": FAILED - 1, "lag": 9, "held": 1}, []),
    ("failed, and nothing waits any more", {**FAILING}, []),
    (
        "every third event is refused, and three of them came in a row",
        {**FAILING, "failing_for": STEADY / 2, "letters": {"status-422": 89}},
        [("dead-letters", "dead letters (status-422: 89)", REDRIVE)],
    ),
    (
        "failing with dead letters of before",
        {**FAILING, "held": 1, "waiting": 1, "letters": {"status-415": 1}},
        [
            ("endpoint-fails", "the target fails, the last 3 attempts failed: 500", RETRY),
            ("dead-letters", "dead letters (status-415: 1)", REDRIVE),
        ],
    ),
    (
        "every event is refused",
        {**FAILING, "last_error": "415", "letters": {"status-415": 89}, "lag": 6, "held": 6},
        [
            ("endpoint-fails", "the target fails, the last 3 attempts failed: 415", REDRIVE),
            ("dead-letters", "dead letters (status-415: 89)", REDRIVE),
        ],
    ),
    (
        "full pull queue",
        {"state": "paused", "paused_for": 1.0, **FULL, "oldest": 2 * LATE},
        [("queue-full", "its pull queue is full: 10 of 10 events wait to be pulled", PULL)],
    ),
    (
        "full pull queue, not yet an eighth free",
        {"paused_for": 1.0, "queue_bound": 100, "queued": 89},
        [("queue-full", "its pull queue is full: 89 of 100 events wait to be pulled", PULL)],
    ),
    ("pull queue in use", {"queue_bound": 100, "queued": 89, "queue_oldest": LATE}, []),
    (
        "unread pull queue",
        {"queue_bound": 100, "queued": 2, "queue_oldest": LATE + 60},
        [("unread-queue", "2 events wait to be pulled, the oldest for 6 min", PULL)],
    ),
    (
        "late events",
        {"oldest": 90_000.0, "last_error": "500"},
        [("late-events", "its oldest event has waited for 1 d 1 h: 500", ATTEMPTS)],
    ),
    (
        "lag that grows",
        {"lag": 913, "lag_grew": 900, "lag_grows_for": LATE},
        [("lag-grows", "its lag has grown by 900 to 913 in 5 min", ATTEMPTS)],
    ),
    ("lag that stays", {"lag": 913, "lag_grew": 0, "lag_grows_for": 9 * LATE}, []),
    ("lag that grows for a moment", {"lag": 913, "lag_grew": 900, "lag_grows_for": 1.0}, []),
    (
        "one key is refused",
        {"parked": 5, "parked_keys": 2, "parked_oldest": 7_300.0},
        [("parked-keys", "5 events of 2 keys are parked, the oldest for 2 h 1 min", RETRY)],
    ),
    (
        "events without a key are refused",
        {"parked": 3, "parked_keys": 0, "parked_keyless": 3},
        [("parked-keys", "3 events without a key are parked, the oldest for 0 s", RETRY)],
    ),
    (
        "events of a key and without one are refused",
        {"parked": 5, "parked_keys": 1, "parked_keyless": 3},
        [
            (
                "parked-keys",
                "5 events (3 without a key, the others of 1 key) are parked, the oldest for 0 s",
                RETRY,
            )
        ],
    ),
    (
        "failing with parked keys",
        {**FAILING, "lag": 913, "parked": 108, "parked_keys": 9, "parked_oldest": 9.0},
        [
            ("endpoint-fails", "the target fails, the last 3 attempts failed: 500", RETRY),
            ("parked-keys", "108 events of 9 keys are parked, the oldest for 9 s", RETRY),
        ],
    ),
    (
        "paused with parked keys, whose retry would be refused",
        {
            **FAILING,
            "state": "paused",
            "cause": "paused: a release",
            "lag": 9,
            "parked": 1,
            "parked_keys": 1,
        },
        [
            ("paused", "paused: a release. Its events wait in the log", RESUME),
            ("parked-keys", "1 event of 1 key is parked, the oldest for 0 s", RESUME),
        ],
    ),
    (
        "paused by its document, with parked keys",
        {"state": "paused", "cause": PAUSED_BY_CONFIGURATION, "parked": 1, "parked_keys": 1},
        [
            ("paused", "paused by its configuration. Its events wait in the log", SHOW),
            ("parked-keys", "1 event of 1 key is parked, the oldest for 0 s", SHOW),
        ],
    ),
    (
        "disabled with parked keys",
        {"state": "disabled", "cause": "disabled: status-410", "parked": 1, "parked_keys": 1},
        [
            ("disabled", "disabled, nothing is sent: the target answered 410", RESUME),
            ("parked-keys", "1 event of 1 key is parked, the oldest for 0 s", RESUME),
        ],
    ),
    (
        "foreign",
        {"letters": {"foreign": 3}},
        [("dead-letters", "dead letters (foreign: 3)", DISCARD)],
    ),
    (
        "letters of several causes",
        {"letters": {"foreign": 3, "status-415": 2, "schedule-exhausted": 1, "max-age": 4}},
        [
            ("dead-letters", "dead letters (foreign: 3)", f"{DISCARD} --cause foreign"),
            ("dead-letters", "dead letters (max-age: 4)", f"{REDRIVE} --cause max-age"),
            (
                "dead-letters",
                "dead letters (schedule-exhausted: 1, status-415: 2)",
                f"{REDRIVE} --cause schedule-exhausted --cause status-415",
            ),
        ],
    ),
]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [row[1:] for row in OF_SUBSCRIPTION],
    ids=[row[0] for row in OF_SUBSCRIPTION],
)
def test_facts_of_a_subscription(facts: Facts, expected: list[tuple[str, str, str]]) -> None:
    found = list(subscription_verdicts(SubscriptionFacts(id="billing", **facts)))
    assert [(each.name, each.detail, each.command) for each in found] == expected
    assert {each.subject for each in found} <= {"subscription billing"}


@pytest.mark.parametrize(
    ("cause", "cure"),
    [
        ("status-500", "repair the target, then redrive or discard them"),
        ("foreign", "discard them, or set on_foreign: wrap and redrive"),
        ("unwritable", "change the settings that the events do not fit"),
        ("max-deliveries", "repair the consumer, then redrive or discard them"),
        ("max-age", "redrive them, or discard them"),
    ],
)
def test_dead_letters_have_the_cure_of_their_cause(cause: str, cure: str) -> None:
    facts = SubscriptionFacts(id="billing", letters={cause: 1})
    (found,) = subscription_verdicts(facts)
    assert found.cure.startswith(cure)


CONNECT = "skybridge check a.yaml --connect"
SPOOL = SpoolFacts(
    route="all", state="spooling", records=7, bytes=10, most=100, cause="away", oldest=9
)
ACTIVE = SenderFacts(kind="producer", name="shop", last=2 * SILENT)

OF_SERVICE: list[tuple[str, Facts, list[tuple[str, str, str]]]] = [
    ("well", {"brokers": {"log": ""}, "disks": {"/data": 0.5}}, []),
    ("broker away", {"brokers": {"main": "refused"}}, [("broker-away", "broker main", CONNECT)]),
    ("store away", {"store_cause": "refused"}, [("store-away", "store", CONNECT)]),
    ("disk", {"disks": {"/data": 0.1}}, [("disk", "disk /data", "df -h /data")]),
    ("spool", {"spools": [SPOOL]}, [("spool-filling", "route all", CONNECT)]),
    ("spool that drains", {"spools": [SpoolFacts(route="a", state="draining", records=7)]}, []),
    (
        "a cause of readiness",
        {"roles": {"worker": ["main/copy: there is no such topic"]}},
        [("not-ready", "role worker", CONNECT)],
    ),
    (
        "a cause of readiness that only reads like one that other facts explain",
        {
            "roles": {"worker": [Cause("subscription a: main/restore: missing", "subscription a")]},
            "brokers": {"main": ""},
        },
        [("not-ready", "role worker", CONNECT)],
    ),
    (
        "causes of readiness that other facts explain",
        {
            "roles": {
                "worker": [
                    Cause("subscription a is starting", "subscription a"),
                    Cause("subscription b waits because its target fails", "subscription b"),
                    Cause("store: full", "store"),
                    Cause("route b: broker main: no", "broker main"),
                ]
            },
            "subscriptions": [
                *(
                    SubscriptionFacts(id="a", state="starting"),
                    SubscriptionFacts(id="b", state="starting"),
                ),
            ],
            "brokers": {"main": "no"},
            "store_cause": "full",
        },
        [("broker-away", "broker main", CONNECT), ("store-away", "store", CONNECT)],
    ),
    (
        "dead letters of a deleted subscription",
        {"deleted": {"gone": {"status-415": 2, "foreign": 1}}},
        [
            (
                "dead-letters",
                "subscription gone",
                "skybridge dead-letters discard --subscription gone",
            )
        ],
    ),
    (
        "silent after a reload",
        {"senders": [ACTIVE], "reloaded": 2 * SILENT - 1},
        [("silent-producer", "producer shop", "skybridge producers list")],
    ),
    ("silent, but not since a reload", {"senders": [ACTIVE]}, []),
    ("silent long before the reload", {"senders": [ACTIVE], "reloaded": SILENT - 1}, []),
    ("sends after the reload", {"senders": [ACTIVE], "reloaded": 2 * SILENT + 1}, []),
    (
        "refused reload",
        {"refusals": ["a.yaml is no YAML"]},
        [("reload-refused", "configuration", "skybridge check a.yaml")],
    ),
    (
        "an alert whose channel fails",
        {"alerts": {"ops": "status 404: no_service", "pager": ""}},
        [("alert-fails", "alert ops", "skybridge alerts test ops")],
    ),
    (
        "one broker, many subscriptions",
        {
            "brokers": {"main": "no"},
            "subscriptions": [SubscriptionFacts(id=name, broker_cause="no") for name in "abc"],
        },
        [("broker-away", "broker main", CONNECT)],
    ),
    (
        "the gravest first",
        {
            "subscriptions": [
                SubscriptionFacts(id="a", state="paused", cause="paused"),
                SubscriptionFacts(id="b", letters={"foreign": 1}),
                SubscriptionFacts(id="c", state="disabled"),
            ],
            "disks": {"/data": 0.1},
        },
        [
            ("disk", "disk /data", "df -h /data"),
            ("disabled", "subscription c", "skybridge subscriptions resume c"),
            ("dead-letters", "subscription b", "skybridge dead-letters discard --subscription b"),
            ("paused", "subscription a", "skybridge subscriptions resume a"),
        ],
    ),
]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [row[1:] for row in OF_SERVICE],
    ids=[row[0] for row in OF_SERVICE],
)
def test_facts_of_a_service(facts: Facts, expected: list[tuple[str, str, str]]) -> None:
    found = verdicts(ServiceFacts(file="a.yaml", **facts))
    assert [(each.name, each.subject, each.command) for each in found] == expected


def test_the_tables_have_every_verdict() -> None:
    rows = [*OF_SUBSCRIPTION, *OF_SERVICE]
    assert {name for row in rows for name, *_ in row[2]} == set(get_args(VerdictName))


def test_every_verdict_has_a_detail_and_a_cure() -> None:
    for _, facts, _ in OF_SUBSCRIPTION:
        for each in subscription_verdicts(SubscriptionFacts(id="billing", **facts)):
            assert each.detail
            assert each.cure
