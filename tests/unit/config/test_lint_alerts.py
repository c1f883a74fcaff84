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


def test_the_key_of_a_channel_is_hidden(load_text: Callable[..., Loaded]) -> None:
    for preset in ("pagerduty", "jira_service_management"):
        text = alert(f"preset: {preset}, key: canary-of-the-test")
        config = load_text(text, minimal=True).config
        assert "canary" not in f"{config!r} {config.model_dump_json()}"
