"""Whether anything may be sent to the target of one subscription: nobody halted it, and it is not at fault."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from app.delivery.endpoint import BreakerState, Endpoint
from app.errors import StoreUnavailable
from app.interfaces import Halt, Notify
from app.interfaces.notify import DISABLED
from app.worker.request_bounds import requests_in_flight
from app.worker.shared import DispatcherPart, Shared

_log = logging.getLogger("skybridge.worker")


@dataclass(eq=False, repr=False)
class Gate(DispatcherPart):
    """``halted``  why nothing may be sent at all; "" when it may."""

    _notify: Notify

    def __post_init__(self, shared: Shared) -> None:
        super().__post_init__(shared)
        self._disabling = 0  # 410s that are being stored
        self.endpoint = Endpoint(requests_in_flight(shared.subscription))
        self.halted = ""

    @property
    def is_open(self) -> bool:
        return not self.halted and self.endpoint.flow is BreakerState.FLOWING

    @property
    def disabled(self) -> bool:
        """By its target's 410 (W5)."""
        return self.halted.startswith("disabled")

    @property
    def known_disabled(self) -> bool:
        """The same, and the store knows of it."""
        return self.disabled and not self._disabling

    def halt(self, cause: str) -> None:
        """No attempt begins any more; those on the wire go on. "": they may begin again."""
        was_disabled, self.halted = self.disabled, cause
        if self.disabled and not was_disabled:
            _log.warning("%s", disabled_words(self._subscription.id, cause))

    def nothing_sent(self, until: float, *, probe: bool = True) -> None:
        """Another probe may be made then, if this was to be one."""
        if probe:
            self.endpoint.probe_came_to_nothing(until)
            self._timekeeper.at(until)

    async def disable(self, cause: str) -> None:
        """The target is gone (W5). It is remembered through restarts when this returns."""
        self.halt(f"disabled: {cause}")
        self._disabling += 1
        try:
            await self._write(cause, int(self._clock.now() * 1000))
        finally:
            self._disabling -= 1
        self._notify(DISABLED, self._subscription.id, {"cause": cause})

    async def _write(self, cause: str, now_ms: int) -> None:
        while True:
            try:
                await self._store.halts.halt(self._subscription.id, "disabled", cause, now_ms)
            except StoreUnavailable as error:
                self.trouble = f"that it is disabled cannot be stored: {error}"
                _log.error("%s: %s", self._subscription.id, self.trouble)
                await self._clock.sleep(self.pause())
            else:
                self.well()
                return


def halt_words(halt: Halt) -> str:
    """The cause of a dispatcher that the store says is to deliver nothing; it begins with the state."""
    return f"{halt.kind}: {halt.cause}" if halt.cause else halt.kind


def disabled_words(subscription: str, cause: str) -> str:
    """That its target answered 410, and what a person does about it. ``cause``: of its status."""
    return (
        f"subscription {subscription} is disabled: {cause.removeprefix('disabled: ')}; "
        f"deliver again with: skybridge subscriptions resume {subscription}"
    )
