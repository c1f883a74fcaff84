"""Alerts that could not be sent are errors of the check, not of the start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Lint = Callable[..., list[str]]

ROUTE = (
    "routes: [{name: r, to: {broker: log, topic: t}, key: {mapper: attribute, attribute: id}}]\n"
)
SLACK = "preset: slack, url: 'https://hooks.slack.com/services/T'"


def alert(to: str) -> str:
    return f"{ROUTE}alerts: [{{name: ops, to: {{{to}}}}}]\n"


@pytest.mark.parametrize(
    "to", [SLACK, f"{SLACK}, text: '<!here> {{pointer:/text}}'", "preset: pagerduty, key: k"]
)
def test_an_alert_that_can_be_sent_is_clean(lint_text: Lint, to: str) -> None:
    assert lint_text(alert(to)) == []


@pytest.mark.parametrize(
    ("to", "finding"),
    [
        (f"{SLACK}, text: '{{'", "error alerts[0].to.text: stray {"),
        ("preset: pagerduty, key: 'a{'", "error alerts[0].to.key: stray {"),
        ("preset: pagerduty, key: ''", "error alerts[0].to.key: The key is empty."),
        ('preset: jira_service_management, key: "a\\nb"', "error alerts[0].to.key: "),
    ],
)
def test_a_key_or_text_that_cannot_be_used_is_an_error(
    lint_text: Lint, to: str, finding: str
) -> None:
    (found,) = lint_text(alert(to))
    assert found.startswith(finding)
