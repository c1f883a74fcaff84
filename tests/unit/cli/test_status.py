"""``skybridge status``: what needs a person on top, rates of two looks, the exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import exits
from app.cli.admin_client import AdminClient
from app.cli.commands import app

SUBSCRIPTION = {
    "id": "billing",
    "state": "running",
    "lag": 4,
    "delivered": 20,
    "oldest": None,
    "parked": {"rows": 0, "keys": 0, "oldest_seconds": None},
    "dead_letters": {},
    "filter_errors": 0,
    "cause": "",
    "paused_for": None,
}
STATUS: dict[str, Any] = {
    "version": "1",
    "installation": "shop",
    "roles": ["gateway", "worker"],
    "ready": True,
    "attention": [],
    "uptime_seconds": 100.0,
    "configuration": {"digest": "0123456789ab"},
    "brokers": {"log": {"healthy": True, "cause": ""}},
    "store": {"healthy": False, "cause": "disk full"},
    "routes": [
        {
            "name": "orders",
            "to": [{"broker": "log", "topic": "orders"}],
            "events": 50,
            "unpublished": 1,
            "filter_errors": 0,
        }
    ],
    "subscriptions": [SUBSCRIPTION],
    "producers": [
        {
            "name": "shop",
            "events_per_second": 0.5,
            "events": 30,
            "refused": 2,
            "last_event_seconds": 3.0,
        }
    ],
    "intakes": [],
    "spools": [],
    "disks": {"/data": {"free": 3 << 30, "size": 4 << 30}},
}
STOPPED = {"state": "disabled", "cause": "disabled: gone", "dead_letters": {"a": 1, "b": 2}}
PERSON = {
    "verdict": "disabled",
    "severity": "error",
    "subject": "subscription billing",
    "detail": "gone\x1b[2J",
    "cure": "repair it",
    "next": "skybridge resume",
}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the service says, look after look."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(AdminClient, "get", lambda *_: json.loads(json.dumps(found.pop(0))))
    monkeypatch.setattr("time.sleep", lambda _: None)
    return found


def status(*words: str) -> Result:
    return CliRunner().invoke(app, ["status", *words])


def later(seconds: float, events: int, delivered: int) -> dict[str, Any]:
    return {
        **STATUS,
        "uptime_seconds": STATUS["uptime_seconds"] + seconds,
        "routes": [{**STATUS["routes"][0], "events": 50 + events}],
        "subscriptions": [{**SUBSCRIPTION, "delivered": 20 + delivered}],
    }


def rates(done: Result) -> list[Any]:
    found = json.loads(done.stdout)
    return [each["per_second"] for each in (*found["routes"], *found["subscriptions"])]


def test_rates_are_of_the_time_between_two_looks(looks: list[dict[str, Any]]) -> None:
    """By the clock of the service, however long its answers took."""
    looks += [STATUS, later(4.0, 10, 2)]
    assert rates(status("--json")) == [2.5, 0.5]


@pytest.mark.parametrize("again", [later(-50.0, 1, 1), {**STATUS}])
def test_a_service_that_began_anew_in_between_has_no_rates(
    looks: list[dict[str, Any]], again: dict[str, Any]
) -> None:
    looks += [STATUS, again]
    assert rates(status("--json")) == [None, None]


def test_one_look_has_no_rates(looks: list[dict[str, Any]]) -> None:
    looks.append(STATUS)
    assert rates(status("--interval", "0", "--json")) == [None, None]


def test_one_screen_shows_each_part(looks: list[dict[str, Any]]) -> None:
    looks += [STATUS, later(1.0, 3, 2)]
    done = status()
    lines = [line.split() for line in done.stdout.splitlines() if line]
    assert done.exit_code == exits.OK
    assert ["log", "up", "-"] in lines
    assert ["(store)", "down", "disk", "full"] in lines
    assert ["orders", "log/orders", "3.0", "53", "1", "0"] in lines
    assert ["billing", "running", "4", "2.0", "22", "-", "0", "0", "0", "-"] in lines
    assert ["shop", "0.5", "30", "2", "3s"] in lines
    assert ["/data", "3.0GiB", "4.0GiB", "75"] in lines


def test_counts_that_the_store_did_not_report_are_dashes(looks: list[dict[str, Any]]) -> None:
    """Not 0: something may be parked, and be older than what the process holds."""
    unknown = {"oldest": 3.0, "parked": None, "dead_letters": None}
    looks.append({**STATUS, "subscriptions": [SUBSCRIPTION | unknown]})
    lines = [line.split() for line in status("--interval", "0").stdout.splitlines()]
    assert ["billing", "running", "4", "-", "20", "-", "-", "-", "0", "-"] in lines


def test_what_needs_a_person_is_on_top_and_the_exit_code_says_so(
    looks: list[dict[str, Any]],
) -> None:
    """No character of a target's answer moves the cursor."""
    looks.append({**STATUS, "attention": [PERSON], "subscriptions": [SUBSCRIPTION | STOPPED]})
    done = status("--interval", "0")
    first, second, third, fourth, *rest = done.stdout.splitlines()
    assert (first, second, third, fourth) == (
        "NEEDS A PERSON",
        "  subscription billing: gone\\u001b[2J",
        "    cure: repair it",
        "    next: skybridge resume",
    )
    assert done.exit_code == exits.FAILED
    assert any(
        line.split()[:2] == ["billing", "disabled"] and line.endswith("gone") for line in rest
    )


def test_a_notice_is_shown_and_is_no_failure(looks: list[dict[str, Any]]) -> None:
    """An operator paused the subscription, so that a script need not wake one."""
    looks.append({**STATUS, "attention": [PERSON | {"severity": "notice"}]})
    done = status("--interval", "0")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (exits.OK, "NEEDS A PERSON")


def test_a_spool_is_shown_with_what_waits_in_it(looks: list[dict[str, Any]]) -> None:
    looks.append(spooling(12))
    lines = [line.split() for line in status("--interval", "0").stdout.splitlines()]
    assert ["orders", "spooling", "12", "90s", "0.5GiB", "2.0GiB", "3", "gone"] in lines


def test_a_gateway_says_where_subscriptions_are_told(looks: list[dict[str, Any]]) -> None:
    looks.append({**STATUS, "roles": ["gateway"], "subscriptions": []})
    assert "subscriptions run in another process" in status("--interval", "0").stdout


def spooling(records: int) -> dict[str, Any]:
    spool = {"route": "orders", "state": "spooling", "records": records, "oldest_seconds": 90.0}
    size = {"bytes": 1 << 29, "most": 2 << 30, "repeats": 3, "cause": "gone"}
    return {**STATUS, "spools": [spool | size]}


def test_it_waits_until_the_spools_are_empty(looks: list[dict[str, Any]]) -> None:
    looks += [spooling(12), spooling(3), spooling(0)]
    done = status("--drained", "60")
    assert (done.exit_code, done.output, looks) == (exits.OK, "", [])


def test_it_says_what_is_left_in_a_spool_when_the_time_is_over(looks: list[dict[str, Any]]) -> None:
    looks.append(spooling(12))
    done = status("--drained", "0")
    assert done.exit_code == exits.FAILED
    assert "12 of route orders" in done.output
