"""Wait for a configuration that the service can use, instead of ending with its fault.

A supervisor restarts a process that ends, and waits longer after each end. A process that waits
takes a corrected file within a second. It tries again when the file has changed, on SIGHUP, and
every ``RETRY`` seconds. The fault may also lie in an environment that changes: a secret as a file,
a port that another process still has.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Sequence

from app.config.check.source import ConfigSource
from app.config.load.finding import BadConfiguration
from app.config.model.config import Config
from app.errors import SetupError
from app.runtime.reload.reloader import digest_of_bytes
from app.runtime.reload.watching import SETTLED
from app.runtime.signals import Signals
from app.runtime.standby import Standby
from app.telemetry import logs_json, set_up_logging

RETRY = 10.0  # seconds
POLL = 0.5  # seconds between looks at the file

_log = logging.getLogger("skybridge.serve")


class AwaitedConfiguration:
    """The wait for a configuration, after each fault that the service cannot start with."""

    def __init__(self, source: ConfigSource, standby: Standby, signals: Signals) -> None:
        self._source = source
        self._standby = standby
        self._signals = signals
        self._shown: Sequence[str] = ()  # the causes that the log has

    async def wait(self, fault: SetupError) -> None:
        """Report the fault, and return when another attempt is worthwhile or a signal requests a
        stop.
        """
        seen = await asyncio.to_thread(self._digest)
        causes = causes_of(fault)
        config = await asyncio.to_thread(self._source.listeners_and_log)
        if causes != self._shown:
            self._shown = causes
            self._report(config, causes)
        await self._standby.open(config, causes)
        gc.collect()  # a process that starts has turned the collector off
        for _ in range(round(RETRY / POLL)):
            if await self._is_asked(POLL) or await self._changed(seen):
                return

    def _report(self, config: Config, causes: Sequence[str]) -> None:
        set_up_logging(config.log.level, as_json=config.log.format == "json")
        name = self._source.name or "the configuration"
        message = "%s cannot be used, the service waits for a corrected file: %s"
        extra = {"findings": [*causes]} if logs_json() else None
        _log.error(message, name, "; ".join(causes), extra=extra)

    async def _is_asked(self, seconds: float) -> bool:
        """Return True as soon as a signal requests a stop or an attempt, and False after some
        seconds.
        """
        events = (self._signals.asked, self._signals.hung_up)
        waits = [asyncio.ensure_future(each.wait()) for each in events]
        try:
            done, _ = await asyncio.wait(
                waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in waits:
                each.cancel()
        self._signals.hung_up.clear()
        return bool(done)

    async def _changed(self, seen: str | None) -> bool:
        """Return True if the file has changed and is complete, because an editor may still write it."""
        found = await asyncio.to_thread(self._digest)
        if found in {None, seen}:
            return False
        await asyncio.sleep(SETTLED)
        return await asyncio.to_thread(self._digest) == found

    def _digest(self) -> str | None:
        """Return the digest of the file, or None if it cannot be read."""
        try:
            return digest_of_bytes(self._source.read())
        except BadConfiguration:
            return None


def causes_of(fault: SetupError) -> Sequence[str]:
    """Return the findings of an invalid configuration, or the one fault, each with its cure."""
    if isinstance(fault, BadConfiguration):
        return [str(each) for each in fault.findings]
    setting = f"{fault.setting}: " if fault.setting else ""
    cure = f" Cure: {fault.cure}" if fault.cure else ""
    return [f"{setting}{fault.args[0]}{cure}"]
