"""Send corrupted requests to a listener, which must answer or close the connection in a short time."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence

from app.gateway.limits import ListenerLimits
from raw_http import RawConnection

PATIENCE = 60.0  # seconds; the deadlines of LIMITS are far shorter
LIMITS = ListenerLimits(head_timeout=0.2, body_timeout=0.3, keep_alive=0.3, linger=0.1, body=4000)
_ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Z][A-Za-z ]*\r\n")

TOKENS = [
    b"\r\n", b"\n", b"\r", b"\0", b"\xff\xfe", b"%", b"%C0%A0", b":", b" ", b"\t", b"content-length: 5\r\n",
    b"transfer-encoding: chunked\r\n", b"0\r\n\r\n", b"\r\n\r\n", b"HTTP/1.0", b"ce-id: 2\r\n", b"{", b"]",
    b'"', b"\\ud800", b"1e400", b"null", b"content-encoding: gzip\r\n", b"expect: 100-continue\r\n",
    b"connection: upgrade\r\nupgrade: x\r\n", b"\xed\xa0\x80", b"99999999999999999999",
]  # fmt: skip


def corrupted_bytes(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return one to three of ``seeds`` joined together, with a few random corruptions."""
    data = bytearray(b"".join(chance.choices(seeds, k=chance.randint(1, 3))))
    for _ in range(chance.randint(1, 5)):
        place = chance.randrange(len(data) + 1)
        wound = chance.randrange(5)
        if wound == 0:
            data[place : place + 1] = bytes([chance.randrange(256)])
        elif wound == 1:
            del data[place : place + chance.randint(1, 30)]
        elif wound == 2:
            data[place:place] = chance.choice(TOKENS)
        elif wound == 3:
            data[place:place] = data[place : place + chance.randint(1, 60)]
        else:
            del data[place:]
    return bytes(data)


async def statuses_after(port: int, case: bytes, *, ends: bool = False) -> list[int]:
    """Send a case, and return every status that came back before the peer closed the connection.

    Args:
        port: The port of the listener.
        case: The bytes to send.
        ends: Whether to send an end of stream after the bytes.

    Raises:
        TimeoutError: The peer did not close within ``PATIENCE`` seconds.
    """
    async with await RawConnection.open(port) as peer:
        peer.writer.write(case)
        if ends:
            peer.writer.write_eof()
        async with asyncio.timeout(PATIENCE):
            try:
                answers = await peer.reader.read()
            except ConnectionError:
                return []
    return [int(status) for status in _ANSWER.findall(answers)]
