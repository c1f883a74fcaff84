"""The channel of an alert: the request for its publisher, sent by the same webhook sink as deliveries."""

from __future__ import annotations

from typing import Any, NamedTuple

from app.bindings.record import ContentMode, Decoded, Record
from app.config.model.config import Config
from app.delivery.outcomes import AttemptOutcome, Fate, judge
from app.errors import SetupError
from app.event.value import CloudEvent
from app.features.subscriptions.webhooks import webhook_for
from app.interfaces import Clock, DeliveryRequest, SinkAnswer
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
from app.model.message import Message, Partition
from app.model.subscription import Subscription
from app.sinks.webhook import WebhookSink

TIMEOUT = 15.0  # seconds of one try
_ALERTS = Partition("alerts", 0)
_NO_RECORD = Record(None, (), None, None)


class ChannelAnswer(NamedTuple):
    """The answer of a channel. ``error`` is "" if the channel has taken the message. ``status`` is None without
    an answer."""

    error: str
    status: int | None
    retry_after: str | None


class Channel:
    """The channel of one alert, with its connections.

    A message that nothing needs attention any more may be another request, which closes an incident.
    """

    def __init__(self, alert: Alert, config: Config, clock: Clock) -> None:
        """Open the channel. Raise SetupError if a file or key cannot be used."""
        self._problems = _sink(alert, _request(alert.to), config, clock)
        closing = _closing_request(alert.to)
        self._recovery = self._problems
        if closing is not None:
            self._recovery = _sink(alert, closing, config, clock)

    async def send(self, event: CloudEvent, *, recovered: bool = False) -> ChannelAnswer:
        """Send a message once."""
        sink = self._recovery if recovered else self._problems
        decoded = Decoded(event, ContentMode.STRUCTURED)
        message = Message(
            record=_NO_RECORD, partition=_ALERTS, position="", offset=0, time_ms=0, epoch=0
        )
        answer = await sink.send(DeliveryRequest(message, decoded, TIMEOUT))
        outcome = answer.outcomes[0] if answer.outcomes else _judged(answer)
        error = "" if outcome.fate is Fate.DELIVERED else _error(answer, outcome)
        return ChannelAnswer(error, answer.status, answer.retry_after)

    async def stop(self) -> None:
        """Close the connections."""
        await self._problems.stop()
        if self._recovery is not self._problems:
            await self._recovery.stop()


def _judged(answer: SinkAnswer) -> AttemptOutcome:
    return judge(answer.status, answer.fault, frozenset(), unsent=answer.unsent)


def _error(answer: SinkAnswer, outcome: AttemptOutcome) -> str:
    """Return why the channel has not taken a message, in one line."""
    said = " ".join(answer.body[:200].decode("utf-8", "replace").split())
    what = f"status {answer.status}" if answer.status is not None else outcome.code
    return ": ".join(filter(None, (what, answer.detail, said)))


def _sink(alert: Alert, request: dict[str, Any], config: Config, clock: Clock) -> WebhookSink:
    """Open the webhook of a channel, as a subscription that reads nothing."""
    subscription = Subscription.model_validate(
        {
            "id": alert.name,
            "source": {"broker": "alerts", "topics": ["alerts"]},
            "sink": {"url": alert.to.url, "secret": True},
            "handshake": "off",
            **request,
        }
    )
    try:
        return webhook_for(subscription, config, clock)
    except SetupError as error:
        setting = f"alerts.{alert.name}.to"
        raise SetupError(str(error.args[0]), setting=setting, cure=error.cure) from error


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


def _closing_request(channel: AlertChannel) -> dict[str, Any] | None:
    """Return the settings for the message that nothing needs attention, or None if they are the same."""
    match channel:
        case PagerDutyChannel():
            return _pagerduty(channel, "resolve")
        case JiraChannel():
            return _jira(channel, "close")
    return None


def _pagerduty(channel: PagerDutyChannel, action: str) -> dict[str, Any]:
    request = {
        "preset": channel.preset,
        "key": channel.key,
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
        "key": channel.key,
        "action": action,
        "message": "{pointer:/title}",
        "description": "{pointer:/text}",
        "alias": "{pointer:/incident}",
        "source": "{source}",
        "details": {"link": "{pointer:/link ?? none}"},
    }
    return {"request": request}
