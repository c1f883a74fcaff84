"""The sending state of a subscription: whether it is halted, and whether its endpoint is at fault."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from app.delivery.endpoint import BreakerState, Endpoint
from app.errors import StoreUnavailable
from app.interfaces import Halt, Notify
from app.interfaces.notify import DISABLED
from app.telemetry.light_event import LightEvent
from app.worker.request_bounds import requests_in_flight
from app.worker.shared import DispatcherContext, DispatcherPart

_log = logging.getLogger("skybridge.worker")


@dataclass(eq=False, repr=False)
class EndpointState(DispatcherPart):
    """The sending state of a subscription, from its halts and the circuit breaker of its endpoint.

    ``halted`` is the reason why nothing may be sent, or "" if sending is allowed."""

    _notify: Notify

    def __post_init__(self, shared: DispatcherContext) -> None:
        super().__post_init__(shared)
        self._disabling = 0  # writes of a 410 to the store that are in progress
        self._closes = LightEvent()
        self.endpoint = Endpoint(requests_in_flight(shared.subscription), self._closes.set)
        self.halted = ""

    @property
    def is_open(self) -> bool:
        """Return True if requests may be sent without being probes."""
        return not self.halted and self.endpoint.flow is BreakerState.FLOWING

    async def closed(self) -> None:
        """Wait until requests may not be sent, or only as probes."""
        while self.is_open:
            self._closes.clear()
            await self._closes.wait()

    @property
    def disabled(self) -> bool:
        """Return True if the target answered 410 (webhook specification 2.2)."""
        return self.halted.startswith("disabled")

    @property
    def known_disabled(self) -> bool:
        """Return True if the target answered 410 and the store has recorded it."""
        return self.disabled and not self._disabling

    def halt(self, cause: str) -> None:
        """Start no new attempts for the given cause; an empty cause allows attempts again. Requests in flight go
        on."""
        was_disabled, self.halted = self.disabled, cause
        self._closes.set()
        if self.disabled and not was_disabled:
            _log.warning("%s", disabled_message(self._subscription.id, cause))

    def nothing_sent(self, until: float, *, probe: bool = True) -> None:
        """Allow another probe at ``until`` (monotonic seconds), if this attempt was to be a probe."""
        if probe:
            self.endpoint.probe_came_to_nothing(until)
            self._timekeeper.wake_at(until)

    async def disable(self, cause: str) -> None:
        """Disable the subscription after a 410, and return when the store has recorded it."""
        self.halt(f"disabled: {cause}")
        self._disabling += 1
        try:
            await self._write(cause, int(self._store.clock.now() * 1000))
        finally:
            self._disabling -= 1
        self._notify(DISABLED, self._subscription.id, {"cause": cause})

    async def _write(self, cause: str, now_ms: int) -> None:
        while True:
            try:
                await self._store.halts.halt(self._subscription.id, "disabled", cause, now_ms)
            except StoreUnavailable as error:
                self.trouble = f"the disabled state cannot be stored: {error}"
                _log.error("%s: %s", self._subscription.id, self.trouble)
                await self._clock.sleep(self.retry_delay())
            else:
                self.clear_trouble()
                return


def halt_cause(halt: Halt) -> str:
    """Return the halt of a subscription as a status cause: its kind, a colon and its cause."""
    return f"{halt.kind}: {halt.cause}" if halt.cause else halt.kind


def disabled_message(subscription: str, cause: str) -> str:
    """Return the message that the target answered 410, with the command that resumes the subscription.

    Args:
        subscription: the id of the subscription.
        cause: the cause in its status.
    """
    return (
        f"subscription {subscription} is disabled: {cause.removeprefix('disabled: ')}; "
        f"deliver again with: skybridge subscriptions resume {subscription}"
    )
