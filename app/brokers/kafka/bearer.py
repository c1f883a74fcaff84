"""SASL OAUTHBEARER: check a token on a short connection before a client logs in with it.

aiokafka takes any answer to a token as success, and hangs after a rejection. A broker rejects a token with
a message (RFC 7628, 3.2.2) and accepts it with an empty answer. This module sends the two requests of the
login (KIP-43, KIP-152) and reads that message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from struct import Struct

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import SaslAuthenticationFailed

from app.brokers.kafka.addresses import addresses_of

_SIZE = Struct(">i")
_HEADER = Struct(">hhih")  # API key, version, correlation id, length of the client id
_CODE, _LENGTH = Struct(">ih"), Struct(">h")  # correlation id and error code; length of a string
_HANDSHAKE, _AUTHENTICATE = (17, 1), (36, 0)
_LARGEST_ANSWER = 1 << 20  # bytes
_MECHANISM = b"OAUTHBEARER"

Dial = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""A function that opens a connection to one broker, with TLS if the settings require it. It may raise
OSError."""


class ProvenTokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """The access tokens of one client. Each token is checked at a broker before its first use.

    ``token`` raises SaslAuthenticationFailed with the broker's message if the broker rejects the token.
    """

    def __init__(
        self, source: Callable[[], Awaitable[str]], servers: str, dial: Dial, within: float
    ) -> None:
        """Create the token provider of one client.

        Args:
            source: Returns an access token.
            servers: The value of ``bootstrap_servers``.
            dial: Opens a connection to one broker.
            within: The time limit of a check, in seconds.
        """
        self._source = source
        self._servers = servers
        self._dial = dial
        self._within = within
        self._proven = ""

    async def token(self) -> str:
        token = await self._source()
        if token != self._proven and await self._prove(token):
            self._proven = token
        return token

    async def _prove(self, token: str) -> bool:
        """Return True if a broker accepted the token.

        Return False if no broker answered. The client then finds the cause itself.
        """
        for host, port in addresses_of(self._servers):
            try:
                async with asyncio.timeout(self._within):
                    reader, writer = await self._dial(host, port)
                    try:
                        return await _accepted(reader, writer, token)
                    finally:
                        writer.transport.abort()  # closes without TLS shutdown, because nothing was sent that matters
            except (OSError, EOFError, TimeoutError):
                continue
        return False


async def _accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> bool:
    answer = await _ask(reader, writer, _HANDSHAKE, _LENGTH.pack(len(_MECHANISM)) + _MECHANISM)
    if _CODE.unpack_from(answer)[1]:
        return False  # the mechanism is not offered
    message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    answer = await _ask(reader, writer, _AUTHENTICATE, _SIZE.pack(len(message)) + message)
    code = _CODE.unpack_from(answer)[1]
    at = _CODE.size
    length = _LENGTH.unpack_from(answer, at)[0]
    at += _LENGTH.size
    message = answer[at : at + max(0, length)]
    words = answer[at + len(message) + _SIZE.size :]
    if code or words:
        raise SaslAuthenticationFailed((words or message).decode("utf-8", "replace"))
    return True


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, api: tuple[int, int], body: bytes
) -> bytes:
    request = _HEADER.pack(*api, 1, -1) + body
    writer.write(_SIZE.pack(len(request)) + request)
    (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    if not _CODE.size <= size <= _LARGEST_ANSWER:
        raise EOFError
    return await reader.readexactly(size)
