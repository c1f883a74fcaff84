"""``skybridge test``: an operator's own cases, and how it reads when one fails."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import exits
from app.cli.commands import app
from app.config.load.finding import BadConfiguration
from pages import CHECKOUT, blocks

PAGE = CHECKOUT / "docs/guides/route-tests.md"
SHOP = """
version: 1
brokers: {log: {kind: embedded, path: ./log}}
routes:
  - name: orders
    filters: [{prefix: {type: com.example.order.}}]
    to: [{broker: log, topic: orders}, {broker: log, topic: "all.{type}"}]
    key: {mapper: partitionkey, missing: reject}
    content_mode: structured
  - {name: large, filters: [{sql: "amount > 100"}], to: {broker: log, topic: large}}
  - {name: direct, filters: [{exact: {type: never}}], to: {broker: log, topic: direct}}
subscriptions:
  - {id: billing, source: {broker: log, topics: [orders]}, sink: https://billing.example/hook}
  - {id: mirror, source: {broker: log, topics: [orders]}, sink: {broker: log, topic: copies}}
  - {id: behind, source: {broker: log, topics: [copies]}, sink: https://behind.example/hook}
"""
ORDER = {"type": "com.example.order.created", "partitionkey": "k7"}

Tested = Callable[..., Result]


@pytest.fixture
def tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tested:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.yaml").write_text(SHOP)

    def test(cases: Any, *options: str) -> Result:
        text = cases if isinstance(cases, str) else json.dumps(cases, indent=1)
        (tmp_path / "cases.yaml").write_text(text)
        return CliRunner().invoke(app, ["test", "cases.yaml", *options])

    return test


def one(event: dict[str, Any], expect: dict[str, Any], **more: Any) -> dict[str, Any]:
    case = {"name": "one", "event": event, "expect": expect, **more}
    return {"configuration": "shop.yaml", "cases": [case]}


@pytest.mark.parametrize(
    ("event", "expect", "more"),
    [
        (ORDER, {"route": "orders", "to": ["log/orders", "log/all.com.example.order.created"]}, {}),
        (ORDER, {"key": "k7", "content_mode": "structured"}, {"mode": "structured"}),
        (ORDER, {"subscriptions": ["behind", "billing", "mirror"]}, {}),
        ({"type": "com.example.order.created"}, {"refused": "missing-key"}, {}),
        ({"type": "other"}, {"refused": 422}, {}),
        ({"type": "other"}, {"route": "direct", "key": None}, {"route": "direct"}),
        ({"type": "other"}, {"key": "mine"}, {"route": "direct", "key": "mine"}),
        ({"type": "other", "amount": 101}, {"route": "large"}, {}),
        ({"type": ""}, {"refused": "invalid-event"}, {}),
    ],
)
def test_what_is_as_expected_passes(
    tested: Tested, event: dict[str, Any], expect: dict[str, Any], more: dict[str, Any]
) -> None:
    result = tested(one(event, expect, **more))
    assert (result.exit_code, result.stdout) == (exits.OK, "ok    one\n")


@pytest.mark.parametrize(
    ("event", "expect", "said"),
    [
        (ORDER, {"route": "large"}, ["route: expected large", "but came orders",
         "route orders takes it: prefix type 'com.example.order.'"]),
        (ORDER, {"to": ["log/orders"]}, ["but came log/orders, log/all.com.example.order.created"]),
        (ORDER, {"key": None}, ["key: expected none", "but came k7",
         "partitionkey: it is the attribute partitionkey"]),
        (ORDER, {"content_mode": "binary"}, ["but came structured"]),
        (ORDER, {"subscriptions": ["other"]}, ["but came behind, billing, mirror",
         "subscription other does not read log/orders, log/all"]),
        (ORDER, {"refused": "no-route"}, ["refused: expected no-route", "but came accepted"]),
        ({"type": "x"}, {"route": "orders"}, ["refused: expected accepted", "but came 422 no-route",
         "route orders does not match: prefix type"]),
        ({"type": "x"}, {"refused": "missing-key"}, ["but came 422 no-route"]),
    ],
)  # fmt: skip
def test_what_is_not_says_what_was_expected_what_came_and_why(
    tested: Tested, event: dict[str, Any], expect: dict[str, Any], said: list[str]
) -> None:
    result = tested(one(event, expect))
    assert result.exit_code == exits.FAILED
    for each in said:
        assert each in result.stdout


def test_every_fault_of_the_cases_is_told_with_its_line(tested: Tested) -> None:
    result = tested(
        "cases:\n- {name: a, event: {}, expect: {}}\n- name: b\n  evnt: {}\n  expect: {rout: x}\n"
    )
    assert isinstance(result.exception, BadConfiguration)
    told = str(result.exception)
    for line in (
        "line 2: error cases[0].expect: The case expects nothing.",
        "line 3: error cases[1].event: The setting is missing.",
        "line 4: error cases[1].evnt: The setting is unknown. Cure: Did you mean event?",
        "line 5: error cases[1].expect.rout: The setting is unknown. Cure: Did you mean route?",
    ):
        assert line in told


def test_a_configuration_must_be_named_once(tested: Tested) -> None:
    cases = one(ORDER, {"route": "orders"})
    del cases["configuration"]
    assert tested(cases).exit_code == exits.SETUP
    assert tested(cases, "--config", "shop.yaml").exit_code == exits.OK
    assert tested(cases, "--config", "shop.yaml", "--only", "two").exit_code == exits.SETUP


def test_machines_get_an_object_a_case(tested: Tested) -> None:
    said = json.loads(tested(one(ORDER, {"key": "other"}), "--json").stdout)
    assert (said["passed"], said["failures"][0]["came"]) == (False, "k7")


def test_the_guide_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure that the page shows is one that is printed."""
    monkeypatch.chdir(tmp_path)
    (shell,) = (each.text for each in blocks(PAGE) if each.language == "bash")
    shop = shell.partition("<<'END'\n")[2].partition("END\n")[0]
    (tmp_path / "shop.yaml").write_text(shop)
    expect = "{to: [log/payments], subscriptions: [billing]}"
    case = f"name: a payment is billed, event: {{type: com.example.order.paid}}, expect: {expect}"
    (tmp_path / "wrong.yaml").write_text(f"cases:\n- {{{case}}}\n")
    (console,) = (each.text for each in blocks(PAGE) if each.language == "console")
    command, _, expected = console.partition("\n")
    result = CliRunner().invoke(app, shlex.split(command.removeprefix("$ skybridge ")))
    assert result.stdout.rstrip() == expected.rstrip()
