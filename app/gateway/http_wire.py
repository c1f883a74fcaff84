"""Convert answers to the bytes of HTTP/1.1 (RFC 9112)."""

from __future__ import annotations

from http import HTTPStatus

from app.gateway.answers import ACCEPTED, HttpAnswer

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_STATUS_LINES = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}


class Renderer:
    """A converter of answers to bytes, for all connections of a listener. It caches the plain 202 and the
    last answer.
    """

    def __init__(self) -> None:
        self._defaults: list[tuple[bytes, bytes]] = []
        self._shared = b""
        self._accepted = _render(ACCEPTED, b"")
        self._last = ACCEPTED, self._accepted

    def render(
        self, answer: HttpAnswer, defaults: list[tuple[bytes, bytes]], *, last: bool
    ) -> bytes:
        """Return the bytes of an answer.

        Args:
            answer: the answer.
            defaults: the headers of every answer, such as ``date``. uvicorn replaces this list about once a
                second and never changes a list, so a new list object shows a change.
            last: whether the connection closes after this answer (RFC 9112 9.6).
        """
        if defaults is not self._defaults:
            self._renew(defaults)
        if answer is ACCEPTED and not last:
            return self._accepted
        if last:
            return _render(answer, self._shared + b"connection: close\r\n")
        before, rendered = self._last
        if answer is not before:
            rendered = _render(answer, self._shared)
            self._last = answer, rendered
        return rendered

    def _renew(self, defaults: list[tuple[bytes, bytes]]) -> None:
        self._defaults = defaults
        self._shared = b"".join(b"%b: %b\r\n" % pair for pair in defaults)
        self._accepted = _render(ACCEPTED, self._shared)
        self._last = ACCEPTED, self._accepted


def _render(answer: HttpAnswer, shared: bytes) -> bytes:
    own = b"".join(b"%b: %b\r\n" % pair for pair in answer.headers)
    length = b"content-length: %d\r\n" % len(answer.body)
    return b"".join((_STATUS_LINES[answer.status], shared, own, length, b"\r\n", answer.body))
