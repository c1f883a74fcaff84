"""The state that all connections of one listener share: its limits, and the parts of them that are in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from app.errors import SenderError
from app.gateway.answers import TRANSFER_CODING, HttpAnswer, from_sender_error
from app.gateway.content_coding import coding_of
from app.gateway.limits import ListenerLimits
from app.gateway.request import HeaderPairs, values_of
from app.telemetry import Histogram


class HeadReceiver(Protocol):
    """A connection that receives the head of a request."""

    def make_room(self) -> None:
        """Refuse the request and release its memory."""


UNAUTHENTICATED = ""
"""The share of requests whose sender is not authenticated, or not authenticated yet."""


class BodyShares:
    """Counts of the bytes of requests with an unfinished body. Each request is charged to a share.

    Half of the limit is for authenticated senders. A quarter is divided evenly among the intakes and the
    unauthenticated senders. When a share has used its own part, it may use the last quarter. Each share has
    its own part, so that no share can block another share.
    """

    def __init__(self, limit: int) -> None:
        self.total = 0
        self._held: dict[str | None, int] = {}
        self._borrowed = 0  # bytes that exceed the part of their share
        self.divide(limit, 0, limit)

    def divide(self, limit: int, intakes: int, largest: int) -> None:
        """Divide ``limit`` bytes among authenticated senders, ``intakes`` and unauthenticated
        senders.

        The common part has room for one request of ``largest`` bytes, if ``limit`` is large enough for that.
        """
        self._limit = limit
        self._of_known = limit // 2
        self._of_each = limit // 4 // (intakes + 1)
        self._common = max(limit // 4, min(limit, largest))
        self._borrowed = sum([self._beyond(share, size) for share, size in self._held.items()])

    def hold(self, share: str | None, size: int) -> bool:
        """Charge ``size`` more bytes to a share. A negative size gives bytes back.

        ``share`` is the name of an intake, UNAUTHENTICATED, or None for authenticated senders. Return False
        if the share has no room. The caller must then give its bytes back.
        """
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
    """The limits of one listener, and the parts of them that are in use. ``answered`` is a histogram of the
    time that fast requests wait for their answer.
    """

    def __init__(self, limits: ListenerLimits, answered: Histogram | None = None) -> None:
        self.limits = limits
        self.leaving = False  # the process will stop: every answer is the last of its connection
        self.answered = Histogram() if answered is None else answered
        self.bodies = BodyShares(limits.receiving)
        self.heads = 0  # bytes of unfinished heads
        self._heads: dict[HeadReceiver, int] = {}  # bytes by connection, the oldest first

    def bound(self, limits: ListenerLimits) -> None:
        """Apply new limits from now on."""
        self.limits = limits
        self.bodies.divide(limits.receiving, 0, limits.receiving)

    @property
    def receiving(self) -> int:
        """Return the bytes of all requests whose body is unfinished."""
        return self.bodies.total

    def hold_head(self, connection: HeadReceiver, size: int) -> None:
        """Note that the unfinished head of ``connection`` has ``size`` bytes.

        If the heads of all connections together exceed their limit, the oldest heads are refused.
        """
        self.heads += size - self._heads.get(connection, 0)
        self._heads[connection] = size
        while self.heads > self.limits.heads:
            oldest = next(iter(self._heads))
            self.release_head(oldest)
            oldest.make_room()

    def release_head(self, connection: HeadReceiver) -> None:
        self.heads -= self._heads.pop(connection, 0)

    def refused(self, answer: HttpAnswer, code: str = "") -> HttpAnswer:  # noqa: ARG002 - for the events listener
        """Return ``answer``, which the caller is about to send as a refusal. The events listener also counts
        the refusal.
        """
        return answer

    def refuse_head(
        self, headers: HeaderPairs, named: Mapping[bytes, bytes], *, expects: bool
    ) -> HttpAnswer | None:
        """Return a refusal if the head of a request is reason enough, or None. The size of the body is
        checked elsewhere.

        With ``expects``, the sender waits for an answer before it sends the body (RFC 9110 10.1.1). Then the
        content coding is checked too.
        """
        if b"transfer-encoding" in named and not _is_chunked_alone(headers):
            return TRANSFER_CODING
        if expects and b"content-encoding" in named:
            return _refuse_coding(values_of(headers, b"content-encoding"))
        return None


def _refuse_coding(value: bytes) -> HttpAnswer | None:
    try:
        coding_of(value)
    except SenderError as error:
        return from_sender_error(error)
    return None


def _is_chunked_alone(headers: HeaderPairs) -> bool:
    """Return True if ``chunked`` is the only transfer coding. If there were another coding, its bytes would
    be taken for the body.
    """
    return values_of(headers, b"transfer-encoding").lower() == b"chunked"
