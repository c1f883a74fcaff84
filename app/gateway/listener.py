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


class Listener:
    """``receiving``: bytes of requests whose body is unfinished. ``answered``: how long requests of
    the short way wait for their answer."""

    def __init__(self, limits: Limits, answered: Histogram | None = None) -> None:
        self.limits = limits
        self.answered = Histogram() if answered is None else answered
        self.receiving = 0
        self.heads = 0  # bytes
        self._heads: dict[Unfinished, int] = {}  # the oldest first

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
