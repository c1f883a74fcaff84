"""The message of an alert, as its readers see it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from app.delivery.alert_message import MOST, MOST_IN_DATA, AlertOrigin, event_of, test_event
from app.delivery.alert_plan import AlertMessage, FoundProblem, ReportedProblem
from app.event.validate import faults_of
from app.model.operator_verdict import OperatorVerdict
from app.model.outlet_presets import DiscordRequest
from app.outlets.presets import PRESETS
from verdict_samples import BROKER_AWAY, FAILS

NOW_MS = 1_700_000_000_000
ORIGIN = AlertOrigin("shop", "ops", "https://admin.example.org")
OVER = ReportedProblem(BROKER_AWAY, NOW_MS - 720_000)


def data_of(message: AlertMessage, origin: AlertOrigin = ORIGIN) -> dict[str, Any]:
    event = event_of(message, origin, "id-1", NOW_MS)
    assert faults_of(event.attributes, str) == []
    found: dict[str, Any] = json.loads(event.data or b"")
    return found


def test_a_problem_is_named_with_its_cure_its_command_and_its_page():
    data = data_of(AlertMessage([FoundProblem(FAILS, NOW_MS, True)], []))
    assert data["text"].splitlines() == [
        "Skybridge shop: 1 thing needs attention",
        "- subscription billing: the target fails, the last 12 attempts failed: status 500",
        "  Cure: repair the target, then try again at once",
        "  skybridge retry billing",
        "  https://admin.example.org/console/#/subscriptions/billing",
    ]
    assert (data["state"], data["severity"]) == ("problem", "error")
    assert data["problems"][0] == {
        "verdict": "endpoint-fails",
        "severity": "error",
        "subject": "subscription billing",
        "detail": FAILS.detail,
        "cure": FAILS.cure,
        "command": "skybridge retry billing",
        "since": "2023-11-14T22:13:20Z",
        "new": True,
        "link": "https://admin.example.org/console/#/subscriptions/billing",
    }


def test_a_problem_that_lasts_is_named_with_its_time_and_a_reminder_says_still():
    lasting = FoundProblem(FAILS, NOW_MS - 3_600_000, False)
    lines = data_of(AlertMessage([lasting, lasting], [], is_reminder=True))["text"].splitlines()
    assert lines[0] == "Skybridge shop: 2 things still need attention"
    assert lines[1].endswith("status 500 (for 1 h 0 min)")


def test_a_recovery_names_what_is_over_and_how_long_it_lasted():
    data = data_of(AlertMessage([], [OVER]))
    assert data["text"].splitlines() == [
        "Skybridge shop: recovered, nothing needs attention",
        "Recovered: broker main (broker-away), after 12 min",
    ]
    assert (data["state"], data["severity"], data["problems"]) == ("recovered", "info", [])


def test_without_a_public_url_a_message_has_no_links():
    data = data_of(
        AlertMessage([FoundProblem(FAILS, NOW_MS, True)], []), AlertOrigin("shop", "ops")
    )
    assert "://" not in json.dumps(data)


def test_many_problems_with_long_details_fit_into_a_channel():
    long = OperatorVerdict(
        name="not-ready",
        severity="error",
        subject="role worker",
        detail="x" * 5_000,
        cure="the cause names it",
        command="skybridge status",
    )
    data = data_of(AlertMessage([FoundProblem(long, NOW_MS, True)] * 500, [OVER] * 500))
    assert len(data["text"]) <= MOST
    assert data["text"].startswith("Skybridge shop: 500 things need attention")
    assert len(data["problems"]) == len(data["recovered"]) == MOST_IN_DATA
    assert len(json.dumps(data)) < 512 << 10, "PagerDuty refuses more"


def test_a_text_fits_into_discord_although_its_markup_is_escaped():
    marked = msgspec.structs.replace(FAILS, detail="_*<>" * 100)
    data = data_of(AlertMessage([FoundProblem(marked, NOW_MS, True)] * 8, []))
    escaped = PRESETS[DiscordRequest].markup["content"](data["text"])
    assert len(escaped) <= MOST
    assert len(escaped) > MOST - 5


def test_all_messages_of_an_alert_belong_to_one_incident():
    one = data_of(AlertMessage([FoundProblem(FAILS, NOW_MS, True)], []))
    other = data_of(AlertMessage([], [OVER]))
    assert one["incident"] == other["incident"] == "skybridge shop ops"


def test_a_test_message_says_that_it_is_one():
    data = json.loads(test_event(ORIGIN, "id-1", NOW_MS).data or b"")
    assert data["state"] == "test"
    assert "It reports no problem." in data["text"]
    assert data["incident"] == "skybridge shop ops test", "a real problem opens another incident"


test_event.__test__ = False  # type: ignore[attr-defined] - not a test, but imported by its name
