"""The channel of an alert: the request for its publisher, sent by the same webhook sink as deliveries."""

from __future__ import annotations

from typing import NamedTuple

from app.bindings.record import ContentMode, Decoded, Record
from app.config.derived import alert_requests
from app.config.model.config import Config
from app.delivery.outcomes import AttemptOutcome, Fate, judge
from app.errors import SetupError
from app.event.value import CloudEvent
from app.features.subscriptions.webhooks import webhook_for
from app.interfaces import Clock, DeliveryRequest, SinkAnswer
from app.model.alert import Alert
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
        self._problems = _sink(alert_requests.reporting(alert), config, clock)
        closing = alert_requests.closing(alert)
        self._recovery = self._problems
        if closing is not None:
            self._recovery = _sink(closing, config, clock)

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


def _sink(subscription: Subscription, config: Config, clock: Clock) -> WebhookSink:
    """Open the webhook of a channel."""
    try:
        return webhook_for(subscription, config, clock)
    except SetupError as error:
        setting = f"alerts.{subscription.id}.to"
        raise SetupError(str(error.args[0]), setting=setting, cure=error.cure) from error
