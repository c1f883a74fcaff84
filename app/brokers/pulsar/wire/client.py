"""A client that publishes by Pulsar's binary protocol: find the broker of a partition, and open its producer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import NamedTuple
from urllib.parse import urlsplit

from pulsar import Result

from app.brokers.pulsar.errors import ClientError
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.pulsar.tokens import access_token
from app.brokers.pulsar.wire import commands
from app.brokers.pulsar.wire.commands import BrokerLogin, bytes_at, number_at
from app.brokers.pulsar.wire.connection import WireConnection
from app.brokers.pulsar.wire.frames import COMPRESSIONS, FrameWriter
from app.brokers.pulsar.wire.producer import WireProducer

REDIRECTS = 20  # look-ups of one partition until a broker must answer for it
PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}


class Address(NamedTuple):
    """The address of a broker. ``target`` is the broker to which a proxy at ``url`` forwards, or ""."""

    url: str
    target: str = ""


class WireClient:
    """The connections to the brokers of one cluster. One is opened for each broker, when a partition needs it."""

    def __init__(self, settings: PulsarSettings) -> None:
        self._settings = settings
        self._tls = settings.service_url.startswith("pulsar+ssl://")
        self._context = settings.ssl_context() if self._tls else None
        self._connections: dict[Address, asyncio.Task[WireConnection]] = {}
        self._turn = 0
        self._numbers = count(1)
        self.closed = False

    async def producer(self, wire: str, on_lost: Callable[[str], None]) -> WireProducer:
        """Open a producer for one partition. Raise ClientError, TimeoutError or OSError.

        Args:
            wire: the full name of the partition.
            on_lost: called if the broker or the connection ends the producer.
        """
        settings = self._settings
        async with asyncio.timeout(settings.operation_timeout):
            connection = await self._connection(await self._broker_of(wire))
            number = next(self._numbers)
            made = (await connection.open_producer(wire, number)).content
        compression = None if settings.compression is None else COMPRESSIONS[settings.compression]
        writer = FrameWriter(number, bytes_at(made, 2), compression)
        first = _after(number_at(made, 3))
        return WireProducer(connection, number, writer, first, settings.batching, on_lost)

    async def probe(self, wire: str) -> None:
        """Ask for the broker of a partition. Raise ClientError, TimeoutError or OSError."""
        async with asyncio.timeout(self._settings.operation_timeout):
            await self._broker_of(wire)

    async def close(self) -> None:
        """Close all connections at once. Frames that are not written are dropped."""
        self.closed = True
        for each in self._connections.values():
            each.cancel()
            if each.done() and not each.cancelled() and each.exception() is None:
                each.result().close()
        await asyncio.gather(*self._connections.values(), return_exceptions=True)
        self._connections.clear()

    async def _broker_of(self, wire: str) -> Address:
        """Return the broker that serves a partition, by look-ups that may lead from broker to broker."""
        at, authoritative = await self._service(), False
        for _ in range(REDIRECTS):
            connection = await self._connection(at)
            asked = authoritative
            answer = await connection.ask(
                lambda request: commands.lookup(wire, request, authoritative=asked)  # noqa: B023 - used at once
            )
            found = commands.read_lookup(answer.content, tls=self._tls)
            at = Address(at.url, found.url) if found.by_proxy else Address(found.url)
            if found.is_final:
                return at
            authoritative = found.authoritative
        raise ClientError(Result.LookupError, f"{wire}: {REDIRECTS} brokers name another one")

    async def _service(self) -> Address:
        """Return an address of the configuration that can be connected, beginning with the one that was used last."""
        scheme, _, hosts = self._settings.service_url.rstrip("/").partition("://")
        urls = [f"{scheme}://{host}" for host in hosts.split(",")]
        error: Exception | None = None
        for step in range(len(urls)):
            address = Address(urls[(self._turn + step) % len(urls)])
            try:
                await self._connection(address)
            except (OSError, ClientError, TimeoutError) as failed:
                error = error or failed
            else:
                self._turn = (self._turn + step) % len(urls)
                return address
        raise error or ClientError(Result.ConnectError)

    async def _connection(self, address: Address) -> WireConnection:
        """Return the connection to a broker. Several callers share the opening of one."""
        if self.closed:
            raise ClientError(Result.AlreadyClosed)
        known = self._connections.get(address)
        if known is not None and known.done() and not _is_open(known):
            known = None
        if known is None:
            known = self._connections[address] = asyncio.create_task(self._open(address))
        return await asyncio.shield(known)

    async def _open(self, address: Address) -> WireConnection:
        host, port, target = _places(address)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._settings.connect_timeout):
            _, connection = await loop.create_connection(
                lambda: WireConnection(self._settings.client_id, self._login, address.url),
                host,
                port,
                ssl=self._context,
            )
            try:
                await connection.open(target)
            except BaseException:
                connection.close()
                raise
        return connection

    async def _login(self) -> BrokerLogin:
        settings = self._settings
        if settings.token is not None:
            return BrokerLogin("token", settings.token.encode())
        if settings.oauth2 is not None:
            return BrokerLogin("token", (await access_token(settings)).encode())
        if settings.tls is not None and settings.tls.cert is not None:
            return BrokerLogin("tls")
        return BrokerLogin()


def _places(address: Address) -> tuple[str, int, str]:
    """Return host and port of a broker, and host and port of the broker to which it forwards. Raise ClientError
    for what is no address."""
    try:
        parts = urlsplit(address.url)
        host = (parts.hostname or "").encode("idna").decode()
        port = parts.port or PORTS.get(parts.scheme, PORTS["pulsar"])
        target = urlsplit(address.target).netloc
    except ValueError as error:
        raise ClientError(Result.InvalidUrl, f"{address.url}: {error}") from error
    if not host or "\0" in host:
        raise ClientError(Result.InvalidUrl, f"a broker has the address {address.url!r}")
    return host, port, target


def _is_open(task: asyncio.Task[WireConnection]) -> bool:
    return not task.cancelled() and task.exception() is None and not task.result().closed


def _after(last: int) -> int:
    """Return the sequence id after the last one, which the broker gives as -1 (64 bits) if there is none."""
    return 0 if last >= 1 << 63 else last + 1
