"""One connection of HTTP/1.1: writes a request, reads its answer, and keeps both within bounds.

One request at a time, no pipelining. What a target says beyond its answer, and whatever is no HTTP,
ends the connection. All bytes of an answer are counted, also those that nobody gets to see (interim
answers, extensions of chunks, trailers).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from typing import Protocol, cast

import httptools
import msgspec

BESIDE_BODY = 2**20  # bytes of an answer beyond its body: the head, and what chunks are wrapped in
MOST_HEADERS = 128
LONGEST_LINE = 8_190  # bytes of the head without an end of line
IN_ONE_WRITE = 2**16  # bytes of a body that is copied behind its head
PIECE = 2**18  # bytes of a longer one that are handed to the transport at once
BROKEN = "the answer is broken off, or is no HTTP"

_TICK = 0.001  # seconds that a loop's timer may be early
_CLIP = 200  # characters of an error's text
_FINAL = 200
_SWITCHING = 101  # the only interim status with no other behind it
_NEVER = math.inf

Headers = list[tuple[bytes, bytes]]


class Fault(Exception):
    """No answer. ``name`` as ``SinkAnswer.fault`` has it; ``detail``: words of this side; ``hold``:
    seconds that nothing is sent, because the fault is not the target's."""

    def __init__(self, name: str, detail: str, hold: float = 0.0) -> None:
        super().__init__(name, detail)
        self.name, self.detail, self.hold = name, detail, hold


class Stale(Fault):
    """A connection that had been used before was closed before any byte of this answer came: the
    target may have closed it while it was idle, and may be asked again (RFC 9112 9.3.1)."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """``cut``: the body goes on beyond its bound, or broke off; then ``broken`` says why, and there is
    none."""

    status: int
    headers: Headers
    body: bytes = b""
    cut: bool = False
    broken: str = ""


class Owner(Protocol):
    """Where a connection goes when its answer is complete, and which learns that it was closed."""

    def release(self, connection: Connection) -> None: ...
    def lost(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """``limit``: most bytes of a body. ``tunnel``: asks a proxy for a tunnel, which begins behind the
    head of its answer."""

    __slots__ = (
        *("_loop", "_limit", "_tunnel", "_parser", "_timer", "_fires", "_paused", "_rest"),
        *("_answer", "_deadline", "_begun", "_status", "_headers", "_pieces", "_size"),
        *("_complete", "_surplus", "_taken", "_line", "_lines", "_trailers"),
        *("transport", "owner", "closed", "used", "idle_since"),
    )

    _begun: bool  # a byte of the answer came
    _complete: bool
    _surplus: bool  # more than the answer came: no other may follow on this connection
    _headers: Headers
    _pieces: list[bytes]

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit: int, *, tunnel: bool = False
    ) -> None:
        self._loop = loop
        self._limit = limit
        self._tunnel = tunnel
        self._parser = httptools.HttpResponseParser(self)
        # What targets do and what changes no answer's end: bare LF, odd characters in values.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._timer: asyncio.TimerHandle | None = None
        self._fires = _NEVER
        self._paused = False
        self._rest: memoryview | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._deadline = _NEVER
        self._begin()
        self.transport = cast("asyncio.Transport", None)  # until the connection is made
        self.owner: Owner | None = None
        self.closed = False
        self.used = False  # an answer came by it before
        self.idle_since = 0.0

    def send(self, head: bytes, body: bytes, deadline: float) -> asyncio.Future[Answer]:
        """``deadline``: by the loop's clock. Its result raises Fault and TimeoutError; a caller that
        goes away calls ``forsake``."""
        answer: asyncio.Future[Answer] = self._loop.create_future()
        if self.closed:
            kind = Stale if self.used else Fault
            answer.set_exception(kind("reset", BROKEN))
            return answer
        self._answer = answer
        self._begin()
        self._deadline = deadline
        if deadline < self._fires:
            self._set_timer(deadline)
        if len(body) <= IN_ONE_WRITE:
            self.transport.write(head + body)
        else:
            self.transport.write(head)
            self._rest = memoryview(body)
            self._write_on()
        return answer

    def forsake(self, answer: asyncio.Future[Answer]) -> None:
        """Nobody waits for it any more: the connection ends, unless it is somebody else's by now."""
        if self._answer is answer:
            self.close()

    def close(self, fault: Fault | None = None) -> None:
        """``fault``: for whoever waits for an answer."""
        if self._answer is not None:
            self._fail(fault or Fault("reset", BROKEN))
        elif not self.closed:
            self.closed = True
            if self.transport is not None:
                self.transport.abort()
            if self._timer is not None:
                self._timer.cancel()
            if self.owner is not None:
                self.owner.lost(self)

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.close()  # nobody asked
            return
        self._begun = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._surplus = True
        except httptools.HttpParserError:
            self._surplus = True
            if not self._complete:
                self._fail(Fault("reset", BROKEN))
                return
        if self._complete:
            self._finish()
        else:
            self._bound(len(data))

    def eof_received(self) -> None:
        self._hung_up(None)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None and self._answer is not None:
            self._surplus = True
            self._read_left()
        self._hung_up(error)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._write_on()

    # Called by the parser.

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("more than an answer")
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._status:
            self._headers.append((name, value))
            return
        self._trailers += 1
        if self._trailers > MOST_HEADERS:
            raise ValueError("too many trailers")

    def on_headers_complete(self) -> None:
        if len(self._headers) > MOST_HEADERS:
            raise ValueError("too many headers")
        status = self._parser.get_status_code()
        if status >= _FINAL or status == _SWITCHING:
            self._status = status
            if self._tunnel:
                self._complete = True

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._size += len(body)

    def on_message_complete(self) -> None:
        if self._status and not self._complete:  # else an interim answer, and the next one follows
            self._complete = True
            if not self._parser.should_keep_alive():
                self._surplus = True

    def _begin(self) -> None:
        self._begun = self._complete = self._surplus = False
        self._status = self._size = self._trailers = 0
        self._taken = self._line = self._lines = 0  # counted where an answer comes in pieces
        self._headers = []
        self._pieces = []

    def _finish(self) -> None:
        """The answer is complete, or as much of it as may be."""
        answer, self._answer = self._answer, None
        whole = self._rest is None and not self._paused
        self._rest = None
        body = b"".join(self._pieces)
        cut = self._size > self._limit or not self._complete
        if answer is not None and not answer.done():
            answer.set_result(
                Answer(self._status, self._headers, body[: self._limit] if cut else body, cut)
            )
        if self._tunnel:
            return
        if self._surplus or cut or not whole or self.owner is None:
            self.close()
        else:
            self.used = True
            self.owner.release(self)

    def _fail(self, error: Exception) -> None:
        """A status that came counts, also when what is behind it breaks off."""
        answer, self._answer = self._answer, None
        self._rest = None
        if answer is not None and not answer.done():
            if self._status:
                answer.set_result(Answer(self._status, self._headers, b"", True, words(error)))
            else:
                answer.set_exception(error)
        self.close()

    def _hung_up(self, error: Exception | None) -> None:
        if self._answer is None:
            self.close()
        elif self._status and error is None and self._ends_with_connection():
            self._complete = self._surplus = True
            self._finish()
        elif self.used and not self._begun:
            self._fail(Stale("reset", words(error)))
        else:
            self._fail(Fault("reset", words(error)))

    def _ends_with_connection(self) -> bool:
        """Whether the length of the body is not said (RFC 9112 6.3)."""
        said = {name.lower(): value.lower() for name, value in self._headers}
        coding = said.get(b"transfer-encoding")
        if coding is not None:
            return not coding.rstrip().endswith(b"chunked")
        return b"content-length" not in said

    def _bound(self, taken: int) -> None:
        """The answer goes on beyond these bytes."""
        self._taken += taken
        if self._status and self._size >= self._limit:
            self._finish()  # the rest is not worth reading to keep the connection
            return
        lines = len(self._headers)
        self._line = 0 if self._status or lines != self._lines else self._line + taken
        self._lines = lines
        if (
            self._taken > 2 * self._limit + BESIDE_BODY
            or lines > MOST_HEADERS
            or self._line > LONGEST_LINE
        ):
            self._fail(Fault("reset", BROKEN))

    def _read_left(self) -> None:
        """A target that refuses a body hangs up while we write it. Its answer may be in the socket still."""
        if self.transport.get_extra_info("sslcontext") is None:
            socket = self.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                if data := os.read(socket.fileno(), PIECE):
                    self.data_received(data)

    def _write_on(self) -> None:
        while self._rest and not self._paused:
            piece, self._rest = self._rest[:PIECE], self._rest[PIECE:]
            self.transport.write(piece)
        if not self._rest:
            self._rest = None

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._on_time)
        self._fires = at

    def _on_time(self) -> None:
        """One timer serves many requests: it is moved when it fires, not with each of them."""
        self._timer, self._fires = None, _NEVER
        if self._answer is None:
            return
        if self._deadline - self._loop.time() > _TICK:
            self._set_timer(self._deadline)
        else:
            self._fail(TimeoutError("its time was over"))


def words(error: Exception | None) -> str:
    """What this side says of it: nothing that a target said, and no URL."""
    if isinstance(error, Fault):
        return error.detail
    if not isinstance(error, OSError):
        return BROKEN
    text = (str(error) or type(error).__name__)[:_CLIP]
    return text.encode("utf-8", "replace").decode()
