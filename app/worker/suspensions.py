"""Notice that the process was suspended, so that nothing is sent before the store was read again.

An operator may pause a subscription while a process is suspended, because another process takes the command. The answer to it
promises that no attempt begins later.
"""

from __future__ import annotations

from math import inf

from app.interfaces import Clock
from app.telemetry.light_event import LightEvent

BEAT = 0.25  # seconds between two looks at the clock
TOLERATED = 0.5  # seconds without a look; with the second between two reads of the store, a pause holds after 2 s


class Suspensions:
    """The suspensions of the process, and the reads of the store after them. Without ``watch`` there are none.

    Attributes:
        noticed: Is set when a suspension was noticed, until the next call of ``begin_read``.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_at = inf  # monotonic seconds
        self._count = 0  # suspensions that were noticed
        self._read = 0  # those of them after which the store was read
        self._spoiled = False  # the last read of the store was suspended itself
        self.noticed = LightEvent()

    async def watch(self) -> None:
        """Notice suspensions until this task is cancelled."""
        while True:
            self._look()
            await self._clock.sleep(BEAT)

    def begin_read(self) -> int:
        """Return a number for ``end_read``, when a read of the store begins."""
        if self._looked_at != inf:
            self._look()
        self.noticed.clear()
        return self._count

    def end_read(self, begun: int) -> None:
        """Note that the store was read, or that it does not answer. A suspension after ``begun`` needs another read.

        Only one read in a row may need another one, so that an overloaded process goes on.
        """
        self._spoiled = begun != self._count and not self._spoiled
        self._read = max(self._read, begun if self._spoiled else self._count)

    def unread(self, now: float) -> bool:
        """Return True if the process was suspended after the last read of the store began.

        Args:
            now: The monotonic time in seconds.
        """
        return self._read != self._count or now - self._looked_at > TOLERATED

    def _look(self) -> None:
        now = self._clock.monotonic()
        if now - self._looked_at > TOLERATED:
            self._count += 1
            self.noticed.set()
        self._looked_at = now
