"""Alerts that could not be sent are errors of the check, not of the start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.config.load.loader import Loaded

Lint = Callable[..., list[str]]

ROUTE = (
    "routes: [{name: r, to: {broker: log, topic: t}, key: {mapper: attribute, attribute: id}}]\n"
)
SLACK = "preset: slack, url: 'https://hooks.slack.com/services/T'"


def alert(to: str) -> str:
    return f"{ROUTE}alerts: [{{name: ops, to: {{{to}}}}}]\n"


@pytest.mark.parametrize(
    "to",
    [SLACK, f"{SLACK}, text: '<!here> {{pointer:/text}}'", "preset: pagerduty, key: 'a{b'"],
)
def test_an_alert_that_can_be_sent_is_clean(lint_text: Lint, to: str) -> None:
    assert lint_text(alert(to)) == []


def test_a_text_that_is_no_template_is_an_error(lint_text: Lint) -> None:
    (found,) = lint_text(alert(f"{SLACK}, text: '{{'"))
    assert found.startswith("error alerts[0].to.text: stray {")


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ("{{pointer:/nope}}", True),
        ("{{pointer:/link}}", True),  # without server.admin.public_url
        ("{{pointer:/problems/0/detail}}", True),  # a test message and a recovery have no problem
        ("{{customer}}", True),
        ("{{pointer:/link ?? none}} {{subject}} {{pointer:/state}}", False),
    ],
)
def test_a_text_has_only_values_of_every_message(lint_text: Lint, text: str, warns: bool) -> None:
    """A message that lacks a value was never sent, and no check said so."""
    found = lint_text(alert(f"{SLACK}, text: '{text.format()}'"))
    assert [
        each.startswith("warning alerts[0].to.text: The text has a value") for each in found
    ] == ([True] if warns else [])


def test_the_key_of_a_channel_is_hidden(load_text: Callable[..., Loaded]) -> None:
    for preset in ("pagerduty", "jira_service_management"):
        text = alert(f"preset: {preset}, key: canary-of-the-test")
        config = load_text(text, minimal=True).config
        assert "canary" not in f"{config!r} {config.model_dump_json()}"
