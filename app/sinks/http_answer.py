"""Read the HTTP answers of one connection within bounds, and report whether another answer may
follow.

All bytes of an answer count, including interim answers, chunk extensions and trailers. Otherwise a
target could send bytes until the attempt times out.
"""

from __future__ import annotations

import httptools

from app.interfaces import SinkAnswer

MAX_BYTES_OUTSIDE_BODY = 2**20  # the head and the framing of chunks
MAX_HEADERS = 128
MAX_LINE = 8_190  # bytes of one line of the head
BROKEN = "the answer is incomplete, or is not HTTP"

_FINAL = 200
_SWITCHING = 101  # the only 1xx status that ends the answers of a connection
SHORT = 2_048  # bytes of the longest answer that is remembered
_RETRY_AFTER = b"retry-after"


class RequestFailed(Exception):
    """The error for a request that got no answer.

    Attributes:
        name: the kind of failure, a value of ``SinkAnswer.fault``.
        detail: a text of Skybridge, without any text of the target.
        hold: seconds for which nothing should be sent, because the target is not at fault; else 0.
        unsent: whether no byte of the request was sent, or TLS refused all of them.
    """

    def __init__(self, name: str, detail: str, hold: float = 0.0, *, unsent: bool = False) -> None:
        super().__init__(name, detail)
        self.name, self.detail, self.hold, self.unsent = name, detail, hold, unsent

    def answer(self) -> SinkAnswer:
        """Return the failure as the answer of the sink."""
        return SinkAnswer(None, self.name, self.detail, hold=self.hold, unsent=self.unsent)


class UsualAnswer:
    """The last short answer that arrived in one piece, by its bytes.

    Targets often repeat an answer, and an equal one is not parsed again, on any connection with the
    same limit of the body. The answer is then the same object.
    """

    __slots__ = ("answer", "data")

    def __init__(self) -> None:
        self.data = b""
        self.answer = SinkAnswer(None)


class AnswerReader:
    """A parser of the HTTP answers of one connection.

    ``limit`` is the largest body in bytes. With ``tunnel``, the answer to CONNECT ends with its
    head. ``usual`` is shared by connections with this limit that are no tunnels.

    Attributes:
        begun: whether a byte of the answer arrived.
        status: the status of the final answer; 0 before it arrived.
        last: whether no further answer may follow on the connection.
    """

    __slots__ = (
        *("_limit", "_tunnel", "_parser", "_headers", "_pieces", "_size", "_cut"),
        *("_taken", "_line", "_lines", "_trailers", "_usual", "_complete"),
        *("begun", "status", "last"),
    )

    def __init__(
        self, limit: int, *, tunnel: bool = False, usual: UsualAnswer | None = None
    ) -> None:
        self._limit = limit
        self._tunnel = tunnel
        self._parser = httptools.HttpResponseParser(self)
        # Targets do this, and none of it moves the end of an answer: bare LF, odd characters in values.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._usual = usual or UsualAnswer()
        self.begun = True
        self.begin()

    def release(self) -> None:
        """Let go of the parser, because the connection has ended. The parser refers to this reader: otherwise
        both would stay in memory until the garbage collector runs, which it seldom does."""
        del self._parser

    def begin(self) -> None:
        """Prepare for the next answer."""
        if not self.begun:  # the state is still fresh
            return
        self.begun = self._complete = self.last = self._cut = False
        self.status = self._size = self._trailers = 0
        self._taken = self._line = self._lines = 0  # for an answer in several pieces
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []

    def read(self, data: bytes) -> SinkAnswer | None:
        """Parse ``data``. Return the answer once it is complete or its body reaches the limit, else
        None.

        Raise RequestFailed for bytes that are not HTTP, and for too many bytes outside the body.
        """
        alone = not self.begun
        if alone and data == self._usual.data:
            return self._usual.answer
        self._feed(data)
        if not self._complete:
            return None
        answer = self._whole()
        if alone and not self.last and len(data) <= SHORT:
            self._usual.data, self._usual.answer = data, answer
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
                raise RequestFailed("reset", BROKEN) from None
        if not self._complete:
            self._bound(len(data))

    def _whole(self) -> SinkAnswer:
        """Return the complete answer, with its body cut at the limit."""
        body = b"".join(self._pieces)
        if self._cut or self._size > self._limit:
            self.last = True
            return self._answer(body[: self._limit], cut=True)
        return self._answer(body)

    def cut_short(self, why: str) -> SinkAnswer:
        """Return an answer with its status alone, because the connection ended before the body did.
        ``why`` goes into its detail.
        """
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
        """Return the answer if the end of the connection completes it, else None.

        An orderly end completes an answer that does not state the length of its body (RFC 9112
        6.3).
        """
        headers = {name.lower(): value.lower() for name, value in self._headers}
        coding = headers.get(b"transfer-encoding")
        until_close = (
            b"content-length" not in headers
            if coding is None
            else not coding.rstrip().endswith(b"chunked")
        )
        self._complete = self.last = bool(self.status) and until_close
        return self._whole() if self._complete else None

    # Callbacks of httptools.

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("more than an answer")
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:
            if b"\0" in value or len(self._headers) == MAX_HEADERS:
                raise ValueError("NUL in a header, or too many")
            self._headers.append(
                (name, value.strip(b" \t"))
            )  # the parser leaves trailing white space
            return
        self._trailers += 1
        if self._trailers > MAX_HEADERS:
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
        if self.status and not self._complete:  # an interim answer has no status here
            self._complete = True
            if not self._parser.should_keep_alive():
                self.last = True

    def _bound(self, taken: int) -> None:
        """Enforce the bounds on an answer that continues after these ``taken`` bytes."""
        self._taken += taken
        if self.status and self._size >= self._limit:
            self._complete = self._cut = True  # the body is cut here
            return
        lines = len(self._headers)
        self._line = 0 if self.status or lines != self._lines else self._line + taken
        self._lines = lines
        if self._taken > 2 * self._limit + MAX_BYTES_OUTSIDE_BODY or self._line > MAX_LINE:
            raise RequestFailed("reset", BROKEN)


def text_of(value: bytes) -> str:
    """Decode a header name or value. Invalid UTF-8 becomes surrogate escapes."""
    return value.decode("utf-8", "surrogateescape")
