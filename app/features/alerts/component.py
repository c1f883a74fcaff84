"""The component of alerts: look at what needs a person, and report it to channels."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence

from app.api.asked.alerts import AlertView, SentView
from app.config.model.config import Config
from app.delivery.alert_plan import ProcessFindings, joined
from app.errors import StoreUnavailable
from app.features.alerts.duty import AlertDuty
from app.features.alerts.sender import AlertSender
from app.features.component import Component, ConfigChange
from app.interfaces import Clock, Store
from app.telemetry.tasks import keep, stop_task

_log = logging.getLogger(__name__)

Findings = Callable[[], Awaitable[ProcessFindings]]
"""A function that returns what needs a person, as this process sees it."""


class AlertsComponent(Component[AlertSender]):
    """The alerts. Each process reports what it finds; one process of the installation sends."""

    name = "alerts"

    def __init__(self, config: Config, clock: Clock, store: Store, findings: Findings) -> None:
        self._clock = clock
        self._store = store
        self._findings = findings
        self._duty = AlertDuty(store.alerts, uuid.uuid4().hex)
        self._configured = asyncio.Event()
        self._replaced: AlertSender | None = None
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._use(AlertSender(config, clock, store.clock))

    def _use(self, sender: AlertSender) -> None:
        self._sender = sender
        if sender.alerts:
            self._configured.set()
        else:
            self._configured.clear()

    async def start(self) -> None:
        self._task = keep("alerts", self._watch)

    async def stop(self, drain: float) -> None:
        with contextlib.suppress(TimeoutError):  # a message that is being sent is not sent again
            async with asyncio.timeout(drain), self._looking:
                await stop_task(self._task)
        await stop_task(self._task)
        if self._sender.alerts:
            await self._leave()
        await self._sender.stop()

    async def prepare(self, change: ConfigChange) -> AlertSender:
        return AlertSender(change.config, self._clock, self._store.clock)

    def apply(self, prepared: AlertSender) -> None:
        self._replaced = self._sender
        self._use(prepared)

    async def retire(self) -> None:
        replaced, self._replaced = self._replaced, None
        if replaced is None:
            return
        async with self._looking:  # a message that is being sent is not sent again
            if replaced.alerts and not self._sender.alerts:
                await self._leave()
            await replaced.stop()

    async def _leave(self) -> None:
        try:
            await self._duty.leave()
        except StoreUnavailable as error:
            _log.info("another process takes the alerts over after a while: %s", error)

    async def _watch(self) -> None:
        while True:
            await self._configured.wait()
            await self._clock.sleep(self._sender.look)
            await self.look()

    async def look(self) -> None:
        """Report what this process finds, and send what is due if this process is the sender."""
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        sender, now = self._sender, self._clock.monotonic()
        found = await self._findings()
        reports: Sequence[ProcessFindings] = (found,)
        with contextlib.suppress(StoreUnavailable):  # the sender then goes on, and reports that
            reports = await self._duty.report(found, now, sender.look)
        if not self._duty.is_sender:
            sender.rest()
            return
        beating = asyncio.create_task(self._beat(found, sender.look))
        try:
            states = await sender.send_due(joined(reports), self._duty.states, now)
        finally:
            await stop_task(beating)
        try:
            await self._duty.save(states)
        except StoreUnavailable as error:
            _log.warning("what the alerts have sent cannot be stored now: %s", error)

    async def _beat(self, found: ProcessFindings, every: float) -> None:
        """Keep the duty while a slow channel takes its time, so that no other process sends the same message."""
        while True:
            await self._clock.sleep(every)
            with contextlib.suppress(StoreUnavailable):
                await self._duty.report(found, self._clock.monotonic(), every)

    def views(self) -> Sequence[AlertView]:
        """Return the alerts and what they have sent."""
        return self._sender.views(self._duty.states, is_sender=self._duty.is_sender)

    async def test(self, name: str) -> SentView | None:
        """Send a test message to a channel now, and return its answer. Return None if the alert does not exist."""
        return await self._sender.test(name)
