"""Tables of ``subscriptions list`` and ``topics list``: what is wrong has a column, or is said beside it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from app.cli import printing
from app.cli.admin_client import AdminClient
from app.cli.commands import app
from app.cli.pipeline.reroute import print_tally

HEALTH = {
    "state": "running",
    "sink": "https://b.example/",
    "lag": 0,
    "oldest": None,
    "broker_health": {"healthy": True, "cause": ""},
    "parked": {"rows": 0, "keys": 0, "oldest_seconds": None},
    "dead_letters": {},
    "cause": "",
    "filter_errors": 0,
    "answers": {},
    "attention": [],
}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the service says, by path."""
    found: dict[str, Any] = {}
    monkeypatch.setattr(AdminClient, "get", lambda _self, path, *_, **__: found[path])
    return found


def rows(*words: str) -> list[dict[str, str]]:
    """Of the table, by its columns."""
    head, *lines = CliRunner().invoke(app, words).stdout.splitlines()
    return [dict(zip(head.split(), line.split(), strict=True)) for line in lines]


@pytest.mark.parametrize(
    ("health", "shown"),
    [
        ({}, {"BROKER": "up", "PARKED": "0", "OLDEST": "-"}),
        ({"oldest": 0.4}, {"OLDEST": "0s"}),
        (
            {"oldest": 3.2, "parked": {"rows": 5, "keys": 1, "oldest_seconds": 75.04}},
            {"PARKED": "5", "OLDEST": "75s"},
        ),
        (
            {"oldest": 3.2, "parked": None, "dead_letters": None},
            {"PARKED": "-", "OLDEST": "-", "DEAD_LETTERS": "-"},
        ),
        (
            {"lag": None, "broker_health": {"healthy": False, "cause": "connection refused"}},
            {"BROKER": "down", "LAG": "-"},
        ),
        (
            {"state": "disabled", "cause": "disabled: gone", "filter_errors": 3},
            {"STATE": "disabled", "FILTER_ERRORS": "3", "CAUSE": "gone"},
        ),
        (
            {"attention": [{"verdict": "endpoint-fails"}, {"verdict": "parked-keys"}]},
            {"NEEDS": "endpoint-fails,parked-keys"},
        ),
        (
            {"answers": {"204": 7, "timeout": 2, "503": 9, "500": 1}},
            {"ANSWERS": "503:9,204:7,timeout:2", "CAUSE": "-"},
        ),
    ],
)
def test_a_subscription_that_looks_well_and_is_not(
    answers: dict[str, Any], health: dict[str, Any], shown: dict[str, str]
) -> None:
    """Running with no lag and no dead letters may still be stuck."""
    answers["/v1/subscriptions"] = [{"id": "b", "origin": "file", "health": HEALTH | health}]
    (row,) = rows("subscriptions", "list")
    assert shown.items() <= row.items()


@pytest.mark.parametrize(
    ("parked", "line"),
    [(None, "parked        unknown"), ({"rows": 5, "oldest_seconds": 1.0}, "parked        5")],
)
def test_one_subscription_is_shown_with_its_parked_events_if_they_are_known(
    answers: dict[str, Any], parked: Any, line: str
) -> None:
    """Without the line there are none."""
    shown = HEALTH | {"partitions": [], "held": 0, "in_flight": 0, "last_error": ""}
    answers["/v1/subscriptions/b"] = {"id": "b"}
    answers["/v1/subscriptions/b/status"] = {
        "origin": "file", "place": "", "faults": [], "warnings": [], "etag": "1",
        "health": shown | {"parked": parked},
    }  # fmt: skip
    assert line in CliRunner().invoke(app, ["subscriptions", "show", "b"]).stdout.splitlines()


def test_topics_of_a_broker_that_is_away_are_missed(answers: dict[str, Any]) -> None:
    """A list without them looks whole."""
    answers["/v1/topics"] = [{"broker": "log", "name": "events", "partitions": []}]
    answers["/status"] = {
        "brokers": {
            "log": {"healthy": True, "cause": ""},
            "main": {"healthy": False, "cause": "connection refused"},
        }
    }
    for words in (("topics", "list"), ("topics", "list", "--json")):
        done = CliRunner().invoke(app, words)
        assert done.stderr == "broker main does not answer: connection refused\n"
        assert len(done.stdout.splitlines()) == (1 if "--json" in words else 2)


@pytest.mark.parametrize("verb", ["replace", "patch"])
def test_what_a_change_does_to_events_that_wait_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verb: str
) -> None:
    """Standard output stays the answer."""
    answer = httpx.Response(200, json={"id": "b"}, headers=[("skybridge-warning", "waits [gone]")])
    monkeypatch.setattr(AdminClient, "request", lambda *_, **__: answer)
    file = tmp_path / "b.yaml"
    file.write_text("id: b\n")
    words = {
        "replace": ("b", "-f", str(file), "--if-match", "1"),
        "patch": ("b", "{}", "--if-match", "1"),
    }[verb]
    done = CliRunner().invoke(app, ["subscriptions", verb, *words, "--json"])
    assert (done.stdout, done.stderr) == ('{"id":"b"}\n', "warning waits [gone]\n")


def test_a_move_changes_the_sharing_of_each_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change names the ETag that the command has read, so it cannot overwrite another change."""
    sent: list[tuple[str, str, Any, Any]] = []

    def request(_: object, method: str, path: str, **more: Any) -> httpx.Response:
        sent.append((method, path, more.get("content"), more.get("headers", {}).get("if-match")))
        return httpx.Response(200, json={"id": path[-1]}, headers={"etag": f'"{path[-1]}"'})

    monkeypatch.setattr(AdminClient, "request", request)
    done = CliRunner().invoke(app, ["subscriptions", "move", "a", "b", "--sharing", "topic"])
    assert done.stdout == "moved  a\nmoved  b\n"
    assert [each for each in sent if each[0] == "PATCH"] == [
        ("PATCH", f"/v1/subscriptions/{name}", b'{"sharing": "topic"}', f'"{name}"')
        for name in "ab"
    ]


HOSTILE = "a\n2\r\x1b[31m\x9b\x85\u2028\u2029\u202e\u2066\x7f"
ESCAPED = "a\\n2\\r\\u001b[31m\\u009b\\u0085\\u2028\\u2029\\u202e\\u2066\\u007f"


def test_what_others_chose_as_a_name_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables, lines, JSON and errors alike; JSON keeps its meaning."""
    printing.print_table(["name"], [[HOSTILE], [[HOSTILE]]])
    head, *cells = capsys.readouterr().out.splitlines()
    assert (head, cells) == ("NAME", [ESCAPED, ESCAPED])

    printing.json_line({"name": HOSTILE})
    (line,) = capsys.readouterr().out.split("\n")[:-1]
    assert line.isprintable()
    assert json.loads(line) == {"name": HOSTILE}

    printing.text_line(f"name {HOSTILE}")
    assert capsys.readouterr().out == "name " + ESCAPED.replace("\\n", "\n") + "\n"

    printing.print_error(f"[b] {HOSTILE}", cure=HOSTILE)
    assert [each for each in capsys.readouterr().err if not each.isprintable()] == ["\n"] * 2


def test_a_reroute_lists_what_it_read_and_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    tally = SimpleNamespace(read=5, written=3, routes={"eu": 3}, rejected={"no-route": 2})
    print_tally(tally, as_json=False)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [
        ["route", "eu", "3"], ["rejected", "no-route", "2"], ["read", "5"], ["written", "3"]
    ]  # fmt: skip
