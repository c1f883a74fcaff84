"""Send the messages of the alerts of one configuration."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence

from app.api.asked.alerts import AlertView, ReportedView, SentView
from app.api.http.moments import rfc3339
from app.config.model.config import Config
from app.delivery import alert_message
from app.delivery.alert_message import AlertOrigin
from app.delivery.alert_plan import AlertMessage, AlertRule, AlertState, AlertWatch
from app.delivery.backoff import doubling, retry_after
from app.delivery.target_url import read_url
from app.features.alerts.channel import Channel, ChannelAnswer
from app.features.alerts.duty import States
from app.interfaces import Clock
from app.model.alert import Alert
from app.model.operator_verdict import OperatorVerdict

LOOK = 10.0  # seconds between looks, or a tenth of the shortest ``every``
SHORTEST_LOOK = 0.5  # seconds
FIRST_WAIT, LONGEST_WAIT = 10.0, 300.0  # seconds before a message is tried again
_ABSENT = AlertState()

_log = logging.getLogger(__name__)


class AlertSender:
    """The alerts of one configuration, with their channels and what they have found.

    Attributes:
        alerts: The alerts by name.
        look: The seconds between two looks.
    """

    def __init__(self, config: Config, clock: Clock, store_clock: Clock) -> None:
        """Open the channels. Raise SetupError if a file or key cannot be used."""
        self.alerts = {each.name: each for each in config.alerts}
        shortest = min((each.every for each in config.alerts), default=LOOK * 10)
        self.look = max(SHORTEST_LOOK, min(LOOK, shortest / 10))
        self._clock = clock
        self._store_clock = store_clock
        self._installation = config.installation
        self._console = (config.server.admin.public_url or "").rstrip("/")
        self._channels = {each.name: Channel(each, config, clock) for each in config.alerts}
        self._watches: dict[str, AlertWatch] = {}
        self._due: dict[str, float] = {}

    async def send_due(
        self, problems: Sequence[OperatorVerdict], states: States, now: float
    ) -> States:
        """Send the messages that are due, and return what each alert has sent.

        Args:
            problems: what needs a person.
            states: what each alert had sent when this process became the sender.
            now: the monotonic clock in seconds.
        """
        for name, alert in self.alerts.items():
            if name not in self._watches:
                rule = AlertRule(frozenset(alert.when), alert.every, alert.remind)
                self._watches[name] = AlertWatch(rule, states.get(name, _ABSENT), now)
        now_ms = self._now_ms()
        due = [
            (name, message)
            for name, watch in self._watches.items()
            if (message := watch.look(problems, now, now_ms)) is not None
            and self._due.get(name, 0.0) <= now
        ]
        await asyncio.gather(*[self._send(*each) for each in due])
        return {name: each.state for name, each in self._watches.items()}

    def rest(self) -> None:
        """Forget what was found, because another process sends now."""
        self._watches = {}
        self._due = {}

    async def _send(self, name: str, message: AlertMessage) -> None:
        """Send one message. A failure is kept for the status, and the message is tried again."""
        watch, now_ms = self._watches[name], self._now_ms()
        event = alert_message.event_of(message, self._origin(name), str(uuid.uuid4()), now_ms)
        answer = await self._channels[name].send(event, recovered=not message.problems)
        if not answer.error:
            watch.sent(message, now_ms)
            self._due.pop(name, None)
            return
        watch.failed(answer.error)
        self._due[name] = self._clock.monotonic() + self._wait(answer, watch.state.failures)
        if watch.state.failures == 1:
            _log.warning("alert %s: the channel does not take messages: %s", name, answer.error)

    def _wait(self, answer: ChannelAnswer, failures: int) -> float:
        """Return the seconds until a message is tried again."""
        wait = doubling(FIRST_WAIT, LONGEST_WAIT, failures, 1.0)
        now = self._clock.now()
        until = retry_after(answer.retry_after, now) if answer.retry_after else None
        return wait if until is None else max(wait, min(until - now, LONGEST_WAIT))

    def _origin(self, name: str) -> AlertOrigin:
        return AlertOrigin(self._installation, name, self._console)

    def _now_ms(self) -> int:
        return int(self._store_clock.now() * 1000)

    def views(self, states: States, *, is_sender: bool) -> Sequence[AlertView]:
        """Return the alerts and what they have sent, as the store has it."""
        return [
            _view(each, states.get(each.name, _ABSENT), is_sender=is_sender)
            for each in self.alerts.values()
        ]

    async def test(self, name: str) -> SentView | None:
        """Send a test message to a channel now. Return None if the alert does not exist."""
        channel = self._channels.get(name)
        if channel is None:
            return None
        started = self._clock.monotonic()
        event = alert_message.test_event(self._origin(name), str(uuid.uuid4()), self._now_ms())
        answer = await channel.send(event)
        return SentView(
            delivered=not answer.error,
            status=answer.status,
            detail=answer.error,
            duration_ms=round((self._clock.monotonic() - started) * 1000, 3),
        )

    async def stop(self) -> None:
        """Close the channels."""
        for each in self._channels.values():
            await each.stop()


def _view(alert: Alert, state: AlertState, *, is_sender: bool) -> AlertView:
    """Return what ``/v1/alerts`` shows of an alert."""
    return AlertView(
        name=alert.name,
        channel=alert.to.preset,
        host=read_url(alert.to.url.get_secret_value()).host,
        when=list(alert.when),
        sends=is_sender,
        last_sent=rfc3339(state.sent_ms / 1000) if state.sent_ms else None,
        reported=[
            ReportedView(
                verdict=each.verdict.name,
                subject=each.verdict.subject,
                since=rfc3339(each.since_ms / 1000),
            )
            for each in state.reported
        ],
        failures=state.failures,
        error=state.error,
    )
