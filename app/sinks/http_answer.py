"""Reads the answers of one connection, within bounds, and says where no other may follow.

All bytes of an answer are counted, also those that nobody gets to see (interim answers, extensions of
chunks, trailers): else a target could talk until the time of the attempt is over.
"""

from __future__ import annotations

import httptools

from app.interfaces import SinkAnswer

BESIDE_BODY = 2**20  # bytes of an answer beyond its body: the head, and what chunks are wrapped in
MOST_HEADERS = 128
LONGEST_LINE = 8_190  # bytes of the head without an end of line
BROKEN = "the answer is incomplete, or is not HTTP"

_FINAL = 200
_SWITCHING = 101  # the only interim status with no other behind it
_SHORT = 2_048  # bytes of an answer that is remembered
_RETRY_AFTER = b"retry-after"


class Fault(Exception):
    """No answer. ``name`` as ``SinkAnswer.fault`` has it; ``detail``: words of this side; ``hold``:
    seconds that nothing is sent, because the fault is not the target's. ``unsent``: no byte of the request
    was sent, or TLS refused all of them."""

    def __init__(self, name: str, detail: str, hold: float = 0.0, *, unsent: bool = False) -> None:
        super().__init__(name, detail)
        self.name, self.detail, self.hold, self.unsent = name, detail, hold, unsent

    def answer(self) -> SinkAnswer:
        return SinkAnswer(None, self.name, self.detail, hold=self.hold, unsent=self.unsent)


class AnswerReader:
    """``limit``: most bytes of a body. ``tunnel``: the answer ends with its head (CONNECT).

    ``begun``: a byte came. ``status``: of the final answer, 0 before it. ``last``: no other answer may
    follow it.

    Targets repeat themselves: a short answer that came in one piece is known again by its bytes, and they are
    not parsed again.
    """

    __slots__ = (
        *("_limit", "_tunnel", "_parser", "_headers", "_pieces", "_size", "_cut"),
        *("_taken", "_line", "_lines", "_trailers", "_usual", "_usual_answer", "_complete"),
        *("begun", "status", "last"),
    )

    def __init__(self, limit: int, *, tunnel: bool = False) -> None:
        self._limit = limit
        self._tunnel = tunnel
        self._parser = httptools.HttpResponseParser(self)
        # What targets do and what changes no answer's end: bare LF, odd characters in values (but NUL).
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._usual = b""
        self._usual_answer = SinkAnswer(None)
        self.begun = True
        self.begin()

    def begin(self) -> None:
        """The next answer."""
        if not self.begun:  # nothing was parsed of the one before
            return
        self.begun = self._complete = self.last = self._cut = False
        self.status = self._size = self._trailers = 0
        self._taken = self._line = self._lines = 0  # counted where an answer comes in pieces
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []

    def read(self, data: bytes) -> SinkAnswer | None:
        """The answer, or as much of it as may be, where it ends with these bytes. Raises Fault for what is no
        HTTP or too much of it."""
        alone = not self.begun
        if alone and data == self._usual:
            return self._usual_answer
        self._feed(data)
        if not self._complete:
            return None
        answer = self._whole()
        if alone and not self.last and len(data) <= _SHORT:
            self._usual, self._usual_answer = data, answer
        return answer

    def _feed(self, data: bytes) -> None:
        self.begun = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.last = True
        except httptools.HttpParserError:
            self.last = True
            if not self._complete:
                raise Fault("reset", BROKEN) from None
        if not self._complete:
            self._bound(len(data))

    def _whole(self) -> SinkAnswer:
        """Of one that is complete."""
        body = b"".join(self._pieces)
        if self._cut or self._size > self._limit:
            self.last = True
            return self._answer(body[: self._limit], cut=True)
        return self._answer(body)

    def cut_short(self, why: str) -> SinkAnswer:
        """Of one whose status came, which counts also when the body behind it breaks off."""
        return self._answer(b"", cut=True, detail=f"answer cut short: {why}")

    def _answer(self, body: bytes, *, cut: bool = False, detail: str = "") -> SinkAnswer:
        pauses = [value for name, value in self._headers if name.lower() == _RETRY_AFTER]
        return SinkAnswer(
            self.status,
            detail=detail,
            retry_after=text_of(pauses[0]) if pauses else None,
            body=body,
            headers=tuple(self._headers),
            cut=cut,
        )

    def end(self) -> SinkAnswer | None:
        """The target closed the connection in an orderly way. That completes an answer where the length of its
        body is not said (RFC 9112 6.3)."""
        said = {name.lower(): value.lower() for name, value in self._headers}
        coding = said.get(b"transfer-encoding")
        open_end = (
            b"content-length" not in said
            if coding is None
            else not coding.rstrip().endswith(b"chunked")
        )
        self._complete = self.last = bool(self.status) and open_end
        return self._whole() if self._complete else None

    # Called by the parser.

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("more than an answer")
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:
            if b"\0" in value or len(self._headers) == MOST_HEADERS:
                raise ValueError("NUL in a header, or too many")
            self._headers.append((name, value.strip(b" \t")))  # the parser leaves what is behind it
            return
        self._trailers += 1
        if self._trailers > MOST_HEADERS:
            raise ValueError("too many trailers")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= _FINAL or status == _SWITCHING:
            self.status = status
            self._complete = self._tunnel

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._size += len(body)

    def on_message_complete(self) -> None:
        if self.status and not self._complete:  # else an interim answer, and the next one follows
            self._complete = True
            if not self._parser.should_keep_alive():
                self.last = True

    def _bound(self, taken: int) -> None:
        """The answer goes on beyond these bytes."""
        self._taken += taken
        if self.status and self._size >= self._limit:
            self._complete = self._cut = True  # the rest is not worth reading
            return
        lines = len(self._headers)
        self._line = 0 if self.status or lines != self._lines else self._line + taken
        self._lines = lines
        if self._taken > 2 * self._limit + BESIDE_BODY or self._line > LONGEST_LINE:
            raise Fault("reset", BROKEN)


def text_of(value: bytes) -> str:
    """A header's name or value, whatever bytes it is."""
    return value.decode("utf-8", "surrogateescape")
