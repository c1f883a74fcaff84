"""Count the requests that the listener could not read, and log them rarely: any peer can cause them."""

from __future__ import annotations

import logging
import math

PERIOD = 60.0  # seconds from one entry in the log to the next

_log = logging.getLogger("skybridge.kafka_listener")


class RefusedFrames:
    """The refused requests of a listener.

    Attributes:
        count: How many there were. The connection of each was closed.
    """

    def __init__(self) -> None:
        self.count = 0
        self._logged = 0
        self._quiet_until = -math.inf

    def note(self, peer: str, fault: Exception, now: float) -> None:
        """Count a refused request. Log it unless one was logged within the period.

        Args:
            peer: The address and port of the client.
            fault: What is wrong with the request.
            now: The monotonic time in seconds.
        """
        self.count += 1
        if now < self._quiet_until:
            return
        _log.warning(
            "%s: %s; closed (requests that cannot be read: %d since the last entry)",
            peer,
            fault,
            self.count - self._logged,
        )
        self._logged = self.count
        self._quiet_until = now + PERIOD
