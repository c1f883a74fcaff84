"""Wrong tokens, counted by address: who guesses has to wait, and the operator is told."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

PERIOD = 60.0  # seconds
WRONG_TOKENS = 10  # from one address within the period; later ones are told to wait
PEERS = 1_024  # addresses that are remembered

_log = logging.getLogger(__name__)


class WrongTokens:
    """How many came from each address since the first of its period; beyond a bound the oldest are forgotten."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._peers: dict[str, tuple[float, int]] = {}  # in the order of their periods
        self._untold = 0
        self._quiet_until = -math.inf

    def note(self, peer: str) -> float:
        """One more. Returns the seconds that the peer has to wait, 0 while it need not."""
        now = self._monotonic()
        since, count = self._peers.get(peer, (now, 0))
        if now - since >= PERIOD:
            del self._peers[peer]
            since, count = now, 0
        self._peers[peer] = since, count + 1
        if len(self._peers) > PEERS:
            del self._peers[next(iter(self._peers))]
        self._tell(peer, now)
        return since + PERIOD - now if count >= WRONG_TOKENS else 0.0

    def _tell(self, peer: str, now: float) -> None:
        self._untold += 1
        if now < self._quiet_until:
            return
        _log.warning(
            "wrong tokens for the admin listener: %d since the last entry, the latest from %s",
            self._untold,
            peer,
        )
        self._untold = 0
        self._quiet_until = now + PERIOD
