"""The requests of alerts: the setting of a channel as the subscription whose webhook sends the messages."""

from __future__ import annotations

from typing import Any

from app.model.alert import (
    Alert,
    AlertChannel,
    CloudEventsChannel,
    DiscordChannel,
    JiraChannel,
    PagerDutyChannel,
    SlackChannel,
    TeamsChannel,
)
from app.model.outlet import SecretValue
from app.model.subscription import Subscription


def reporting(alert: Alert) -> Subscription:
    """Return the subscription of messages about problems. It reads nothing."""
    return _subscription(alert, _request(alert.to))


def closing(alert: Alert) -> Subscription | None:
    """Return the subscription of the message that nothing needs attention, or None if it is the same."""
    match alert.to:
        case PagerDutyChannel():
            return _subscription(alert, _pagerduty(alert.to, "resolve"))
        case JiraChannel():
            return _subscription(alert, _jira(alert.to, "close"))
    return None


def _subscription(alert: Alert, request: dict[str, Any]) -> Subscription:
    return Subscription.model_validate(
        {
            "id": alert.name,
            "source": {"broker": "alerts", "topics": ["alerts"]},
            "sink": {"url": alert.to.url, "secret": True},
            "handshake": "off",
            **request,
        }
    )


def _request(channel: AlertChannel) -> dict[str, Any]:
    """Return the settings of a subscription for messages about problems."""
    match channel:
        case SlackChannel() | TeamsChannel() | DiscordChannel():
            return {"request": {"preset": channel.preset, "text": channel.text}}
        case PagerDutyChannel():
            return _pagerduty(channel, "trigger")
        case JiraChannel():
            return _jira(channel, "create")
        case CloudEventsChannel():
            signing = {} if channel.signing is None else {"signing": channel.signing}
            return {"content_mode": "structured", "headers": channel.headers, **signing}


def _pagerduty(channel: PagerDutyChannel, action: str) -> dict[str, Any]:
    request = {
        "preset": channel.preset,
        "key": SecretValue(secret=channel.key),
        "action": action,
        "summary": "{pointer:/title}",
        "severity": "{pointer:/severity}",
        "dedup": "{pointer:/incident}",
        "source": "{source}",
        "details": {"text": "{pointer:/text}", "problems": "{pointer:/problems}"},
    }
    return {"request": request}


def _jira(channel: JiraChannel, action: str) -> dict[str, Any]:
    request = {
        "preset": channel.preset,
        "key": SecretValue(secret=channel.key),
        "action": action,
        "message": "{pointer:/title}",
        "description": "{pointer:/text}",
        "alias": "{pointer:/incident}",
        "source": "{source}",
        "details": {"link": "{pointer:/link ?? none}"},
    }
    return {"request": request}
