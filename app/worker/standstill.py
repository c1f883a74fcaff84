"""Notice that the process stood still, so that nothing is sent before the store was read again.

An operator may pause a subscription while a process is suspended, because another process takes the command. The answer to it
promises that no attempt begins later.
"""

from __future__ import annotations

from math import inf

from app.interfaces import Clock
from app.telemetry.light_event import LightEvent

BEAT = 0.25  # seconds between two signs of life
TOLERATED = 1.0  # seconds without one; with the second between two reads of the store, a pause holds after 2 s


class Standstill:
    """Tells if the process stood still and has not read the store since. Without ``watch`` it never stands still.

    Attributes:
        noticed: Is set when a standstill was noticed, until the next call of ``begin_read``.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_beat = inf
        self._count = self._read = (
            0  # standstills that were noticed, and those before the last read
        )
        self.noticed = LightEvent()

    async def watch(self) -> None:
        """Notice standstills until this task is cancelled."""
        while True:
            self._beat()
            await self._clock.sleep(BEAT)

    def begin_read(self) -> int:
        """Return a number for ``end_read``, when a read of the store begins."""
        if self._last_beat != inf:
            self._beat()
        self.noticed.clear()
        return self._count

    def end_read(self, begun: int) -> None:
        """Note that the store was read, or that it does not answer. A standstill after ``begun`` counts on."""
        self._read = begun

    def unread(self, now: float) -> bool:
        """Return True if the process stood still after the last read of the store began.

        Args:
            now: The monotonic time in seconds.
        """
        return self._read != self._count or now - self._last_beat > TOLERATED

    def _beat(self) -> None:
        now = self._clock.monotonic()
        if now - self._last_beat > TOLERATED:
            self._count += 1
            self.noticed.set()
        self._last_beat = now
