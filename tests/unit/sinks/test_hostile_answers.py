"""Targets that answer without end: time, header and body bytes are bounded, and so is what we read."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Iterator
from itertools import repeat

import pytest

from app.bindings.http import HttpMessage
from app.sinks.http_client import HttpClient

EVENT = HttpMessage.of((("ce-id", "1"),), b"{}")
WITHIN = 1.0
MOST = 6 * 2**20  # bytes: our bound, and what buffers of the kernel hold
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Endless:
    """Writes ``begin``, then ``more`` for as long as somebody takes it. ``written``: bytes taken."""

    def __init__(self, begin: bytes, more: Iterator[bytes], every: float = 0.0) -> None:
        self.begin, self.more, self.every = begin, more, every
        self.written = 0
        self.connections = 0
        self.gone = asyncio.Event()

    async def start(self) -> str:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.begin)
            for piece in self.more:
                writer.write(piece)
                await writer.drain()
                self.written += len(piece)
                if self.every:
                    await asyncio.sleep(self.every)
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            self.gone.set()


@pytest.fixture
async def poster() -> AsyncIterator[HttpClient]:
    poster = HttpClient(allow_private=("127.0.0.0/8",))
    yield poster
    await poster.stop()


ENDLESS = {
    "one header": (OK + b"X: ", repeat(b"a" * 65_536), 0.0),
    "many headers": (OK, repeat(b"X: " + b"a" * 1_000 + b"\r\n"), 0.0),
    "a status line": (b"HTTP/1.1 200 ", repeat(b"a" * 65_536), 0.0),
    "interim answers": (b"", repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100), 0.0),
    "dripping headers": (OK, repeat(b"X: a\r\n"), 0.05),
    "a body": (OK + b"\r\n", repeat(b"a" * 65_536), 0.0),
    "a body in chunks": (CHUNKED, repeat(b"10000\r\n" + b"a" * 65_536 + b"\r\n"), 0.0),
    "a chunk's extension": (CHUNKED + b"1;", repeat(b"a" * 65_536), 0.0),
    "trailers": (CHUNKED + b"0\r\n", repeat(b"X: " + b"a" * 1_000 + b"\r\n"), 0.0),
    "a dripping body": (CHUNKED, repeat(b"1\r\na\r\n"), 0.05),
    "tiny chunks": (CHUNKED, repeat(b"1\r\na\r\n" * 1_000), 0.0),
}


@pytest.mark.parametrize("what", ENDLESS)
async def test_what_has_no_end_is_ended(poster: HttpClient, what: str) -> None:
    """Rule 8. A status that came counts; what never became an answer is a fault."""
    begin, more, every = ENDLESS[what]
    target = Endless(begin, more, every)
    url = await target.start()
    began = asyncio.get_running_loop().time()
    answer = await poster.post(url, EVENT, WITHIN)
    took = asyncio.get_running_loop().time() - began
    assert took < WITHIN + 20.0  # of a busy machine; the answer has no end
    assert answer.status in {200, None}
    assert answer.status == 200 or answer.fault in {"reset", "timeout"}
    assert len(answer.body) <= 65_536
    await asyncio.wait_for(target.gone.wait(), 60)  # hung up: the target is not left talking
    assert target.written < MOST
    target.server.close()


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
async def test_a_decompression_bomb_stays_packed(poster: HttpClient, coding: str) -> None:
    """10 MB of zeros in 10 KB: no answer is unpacked, whatever it says that it is."""
    bomb = (
        gzip.compress(bytes(10_000_000)) if "gzip" in coding else zlib.compress(bytes(10_000_000))
    )
    head = OK + f"Content-Encoding: {coding}\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    target = Endless(head, iter([bomb]))
    answer = await poster.post(await target.start(), EVENT, WITHIN)
    assert answer.status == 200
    assert answer.body == bomb[:65_536]
    target.server.close()
