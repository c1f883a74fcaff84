"""Count wrong tokens by address: an address that guesses has to wait, and a log line warns the operator."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

PERIOD = 60.0  # seconds
WRONG_TOKENS = 10  # from one address within the period; later ones are answered 429
PEERS = 1_024  # addresses that are remembered

_log = logging.getLogger(__name__)


class WrongTokens:
    """Counts of the wrong tokens of each address within a period. Beyond 1,024 addresses, the oldest
    addresses are forgotten."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._peers: dict[str, tuple[float, int]] = {}  # the oldest period first
        self._unlogged = 0
        self._quiet_until = -math.inf

    def note(self, peer: str) -> float:
        """Count a wrong token of ``peer``. Return the seconds that the peer has to wait, or 0 if it need not
        wait."""
        now = self._monotonic()
        since, count = self._peers.get(peer, (now, 0))
        if now - since >= PERIOD:
            del self._peers[peer]
            since, count = now, 0
        self._peers[peer] = since, count + 1
        if len(self._peers) > PEERS:
            del self._peers[next(iter(self._peers))]
        self._log_count(peer, now)
        return since + PERIOD - now if count >= WRONG_TOKENS else 0.0

    def _log_count(self, peer: str, now: float) -> None:
        self._unlogged += 1
        if now < self._quiet_until:
            return
        _log.warning(
            "wrong tokens for the admin listener: %d since the last entry, the latest from %s",
            self._unlogged,
            peer,
        )
        self._unlogged = 0
        self._quiet_until = now + PERIOD
