"""What all connections of one listener share: its limits, and how much of them is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from app.errors import SenderError
from app.gateway.answers import TRANSFER_CODING, Answer, from_sender_error
from app.gateway.content_coding import coding_of
from app.gateway.limits import Limits
from app.gateway.request import HeaderPairs, values_of
from app.telemetry import Histogram


class Unfinished(Protocol):
    """A connection whose head is not whole yet."""

    def make_room(self) -> None:
        """Refuse the request and give back what it holds."""


STRANGERS = ""
"""The share of requests whose sender is not authenticated, or not yet."""


class BodyShares:
    """Bytes of requests whose body is unfinished, by the share that they are charged to.

    Half of the bound belongs to authenticated senders. A quarter is divided evenly among the intakes and the
    strangers. The last quarter is common: any share may use it when its own part is full. So no share can make
    another one wait, because the own part of each stays free for it.
    """

    def __init__(self, limit: int) -> None:
        self.total = 0
        self._held: dict[str | None, int] = {}
        self._borrowed = 0  # bytes beyond the own part of their share
        self.divide(limit, 0, limit)

    def divide(self, limit: int, intakes: int, largest: int) -> None:
        """Divide ``limit`` bytes among authenticated senders, ``intakes`` and strangers. The common part always has
        room for one request of ``largest`` bytes, as far as ``limit`` has."""
        self._limit = limit
        self._of_known = limit // 2
        self._of_each = limit // 4 // (intakes + 1)
        self._common = max(limit // 4, min(limit, largest))
        self._borrowed = sum([self._beyond(share, size) for share, size in self._held.items()])

    def hold(self, share: str | None, size: int) -> bool:
        """Charge ``size`` more bytes to ``share``: the name of an intake, STRANGERS, or None for authenticated
        senders. A negative size gives them back. Return False if there was no room; the caller then gives back
        what it holds."""
        before = self._held.get(share, 0)
        after = before + size
        if after:
            self._held[share] = after
        else:
            self._held.pop(share, None)
        self.total += size
        beyond = self._beyond(share, after)
        self._borrowed += beyond - self._beyond(share, before)
        return not beyond or (self._borrowed <= self._common and self.total <= self._limit)

    def _beyond(self, share: str | None, size: int) -> int:
        return max(0, size - (self._of_known if share is None else self._of_each))


class Listener:
    """``bodies``: requests whose body is unfinished. ``answered``: how long requests of
    the short way wait for their answer."""

    def __init__(self, limits: Limits, answered: Histogram | None = None) -> None:
        self.limits = limits
        self.answered = Histogram() if answered is None else answered
        self.bodies = BodyShares(limits.receiving)
        self.heads = 0  # bytes
        self._heads: dict[Unfinished, int] = {}  # the oldest first

    def bound(self, limits: Limits) -> None:
        """Apply other bounds to connections from now on."""
        self.limits = limits
        self.bodies.divide(limits.receiving, 0, limits.receiving)

    @property
    def receiving(self) -> int:
        """Bytes of all requests whose body is unfinished."""
        return self.bodies.total

    def hold_head(self, connection: Unfinished, size: int) -> None:
        """The unfinished head of ``connection`` has ``size`` bytes by now. Unfinished heads are bounded
        over all connections together: the oldest makes room (reliability S5)."""
        self.heads += size - self._heads.get(connection, 0)
        self._heads[connection] = size
        while self.heads > self.limits.heads:
            oldest = next(iter(self._heads))
            self.let_go_head(oldest)
            oldest.make_room()

    def let_go_head(self, connection: Unfinished) -> None:
        self.heads -= self._heads.pop(connection, 0)

    def refused(self, answer: Answer, code: str = "") -> Answer:  # noqa: ARG002 - of the events listener
        """Told of each refusal on its way out."""
        return answer

    def refuse_head(
        self, headers: HeaderPairs, named: Mapping[bytes, bytes], *, expects: bool
    ) -> Answer | None:
        """Return the refusal that the head alone justifies, but for the size of the body. ``expects``: the
        sender waits for an answer before it sends the body (RFC 9110 10.1.1), so its coding is looked at too."""
        if b"transfer-encoding" in named and not _is_chunked_alone(headers):
            return TRANSFER_CODING
        if expects and b"content-encoding" in named:
            return _refuse_coding(values_of(headers, b"content-encoding"))
        return None


def _refuse_coding(value: bytes) -> Answer | None:
    try:
        coding_of(value)
    except SenderError as error:
        return from_sender_error(error)
    return None


def _is_chunked_alone(headers: HeaderPairs) -> bool:
    """A coding in a field of its own counts too: its bytes would pass for the body (S10)."""
    return values_of(headers, b"transfer-encoding").lower() == b"chunked"
