"""``skybridge plan`` between two files; against a running service: tests/e2e/test_reload.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli import exits
from app.cli.commands import app
from app.config.load.finding import BadConfiguration

FILE = """version: 1
brokers: {log: {kind: embedded, path: ./log}}
routes: [{name: all, to: {broker: log, topic: events}}]
server: {admin: {token: "${env:PLAN_TOKEN}"}}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLAN_TOKEN", "a-token-in-clear")
    Path("old.yaml").write_text(FILE)


def plan(text: str, *options: str) -> Result:
    Path("new.yaml").write_text(text)
    return CliRunner().invoke(app, ["plan", "new.yaml", "--old", "old.yaml", *options])


def test_no_change_exits_with_0() -> None:
    assert (plan(FILE).exit_code, plan(FILE).stdout) == (exits.OK, "")


def test_a_change_is_told_from_what_to_what() -> None:
    result = plan(FILE.replace("topic: events", "topic: others"))
    assert result.exit_code == exits.CHANGES
    assert result.stdout == (
        'live    routes.all.to: [{"broker":"log","topic":"events"}] -> [{"broker":"log","topic":"others"}]\n'
    )
    assert "applies this without a restart" in result.stderr


def test_what_needs_a_restart_is_named() -> None:
    result = plan(FILE + "installation: other\n")
    assert result.exit_code == exits.RESTART
    assert 'restart installation: "skybridge" -> "other"' in result.stdout
    assert "refused: 1 change needs a restart" in result.stderr


def test_a_shorter_schedule_tells_what_becomes_of_what_waits() -> None:
    """Live, it turns events that wait into dead letters at their next failure: nobody may be surprised."""
    sink = "source: {broker: log, topics: [events]}, sink: 'https://x.example/'"
    form = FILE + f"subscriptions: [{{id: billing, {sink}, retry: {{schedule: %s}}}}]\n"
    Path("old.yaml").write_text(form % "[1s, 2s, 3s]")
    warning = (
        "warning subscription billing: retry.schedule goes from 3 waits to 1; an event whose failures "
        "are 1 or more becomes a dead letter at its next failure\n"
    )
    assert warning in plan(form % "[1s]").stdout
    assert len(json.loads(plan(form % "[1s]", "--json").stdout)["warnings"]) == 1
    for other in ("[1s, 2s, 3s, 4s]", "[9s, 9s, 9s]"):
        assert "warning" not in plan(form % other).stdout


def test_a_new_file_that_is_invalid_exits_with_2() -> None:
    """By ``main``, as any configuration that is wrong."""
    assert isinstance(plan(FILE + "colour: red\n").exception, BadConfiguration)


def test_machines_get_one_object_without_secrets() -> None:
    result = plan(FILE.replace("${env:PLAN_TOKEN}", "another-admin-token"), "--json")
    said = json.loads(result.stdout)
    assert said["result"] == "changes"
    assert [each["setting"] for each in said["changes"]] == ["server.admin.token"]
    assert "token-in-clear" not in result.output
    assert "another-admin-token" not in result.output
