"""A request to try waiting events now, and what the workers did about it."""

from __future__ import annotations

import msgspec


class RetryRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to try waiting events of a subscription before they are due. Without key and event, all are tried.

    Attributes:
        key: The record key, or the value of ``order_by``, whose events are tried.
        event: The id of the event whose key is tried.
        force: Whether a wait that the target asked for (Retry-After) ends too.
    """

    key: str | None = None
    event: str | None = None
    force: bool = False

    @property
    def selects(self) -> bool:
        """Return True if only some events are requested."""
        return self.key is not None or self.event is not None


class RetryResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a request to try waiting events, from the workers.

    Attributes:
        keys: The number of keys that were waiting and are due now.
        probe: Whether the endpoint was paused, and its next probe is due.
        retry_after: The seconds that the target still asks to wait. None if it does not.
    """

    keys: int = 0
    probe: bool = False
    retry_after: float | None = None

    @property
    def found(self) -> bool:
        """Return True if something was waiting."""
        return self.keys > 0 or self.probe or self.retry_after is not None

    def plus(self, other: RetryResult) -> RetryResult:
        """Return the sum of the results of two workers."""
        waits = [each for each in (self.retry_after, other.retry_after) if each is not None]
        return RetryResult(
            keys=self.keys + other.keys,
            probe=self.probe or other.probe,
            retry_after=max(waits, default=None),
        )
