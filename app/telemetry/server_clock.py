"""The time of day of a server that several processes use.

Some times are written by one process and compared with the present by another one. In a store these are the next
attempt of a parked key, the end of a pull lock and the age of a command. In Kubernetes it is the deletion of an object. The wall
clocks of two machines may be an hour apart. So such processes take the time of day from the server that they share."""

from __future__ import annotations

from typing import NamedTuple

from app.interfaces import Clock

MEASURE_EVERY = 10.0  # seconds between two measurements
_DRIFT = 1e-4  # seconds by which two clocks may diverge in a second


class _Measurement(NamedTuple):
    """The server's time minus the monotonic clock in seconds, its largest error, and when it was measured."""

    ahead: float
    error: float
    at: float

    def error_at(self, now: float) -> float:
        return self.error + _DRIFT * (now - self.at)


class ServerClock:
    """The time of day of a server, as ``interfaces.Clock``.

    Before the first measurement it is the time of day of ``clock``, also if there is no server, as with a store that is
    a file. While the server is away, the last measurement is valid. ``measured`` may be called on any thread."""

    def __init__(self, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self.sleep = clock.sleep
        self._wall = clock.now
        self._best: _Measurement | None = None
        self._measure_at = 0.0

    def now(self) -> float:
        """Return the time of day in seconds since 1970."""
        best = self._best
        return self._wall() if best is None else self.monotonic() + best.ahead

    def is_due(self) -> bool:
        """Return True if the server's clock was not measured for MEASURE_EVERY seconds."""
        return self._best is None or self.monotonic() >= self._measure_at

    def measured(self, server: float, began: float, ended: float) -> None:
        """Note what the server's clock showed at a moment between ``began`` and ``ended``.

        A slow answer replaces a precise one only if both cannot be true, as after a step of the server's clock.

        Args:
            server: seconds since 1970, by the server.
            began: when the question was sent, in monotonic seconds.
            ended: when the answer came, in monotonic seconds.
        """
        self._measure_at = ended + MEASURE_EVERY
        error = (ended - began) / 2
        new, best = _Measurement(server - (began + ended) / 2, error, ended), self._best
        if best is not None:
            known = best.error_at(ended)
            if error > known and abs(new.ahead - best.ahead) <= error + known:
                return
        self._best = new
