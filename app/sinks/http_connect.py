"""Open connections to webhooks, directly or through a proxy, with TLS for https URLs.

If a host has several addresses, the next one is tried after 250 ms (RFC 8305). https passes a proxy
in a CONNECT tunnel, and the certificate of the target is verified inside it.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

import msgspec
from aiohappyeyeballs import AddrInfoType, addr_to_addr_infos, start_connection

from app import __version__
from app.delivery.target_url import read_url
from app.sinks.dns import AddressBlocked, GuardedResolver
from app.sinks.http_answer import RequestFailed, UsualAnswer
from app.sinks.http_connection import ClientConnection, WriteBatcher, describe
from app.sinks.tls import TlsFiles

STAGGER = 0.25  # seconds until the next address is tried too (RFC 8305 8)
PROXY_PAUSE = 5.0  # seconds without requests after a fault of the proxy
PROXY_LOGIN = 407  # only a proxy answers so
USER_AGENT = f"skybridge/{__version__}"

_PROXY_REFUSES = frozenset({401, 403, PROXY_LOGIN, 429})  # the request did not reach the target
_SUCCESS = range(200, 300)


class Proxy(msgspec.Struct, frozen=True):
    """A proxy. ``login`` is the value of ``Proxy-Authorization``, or "" if the proxy needs none."""

    host: str
    port: int
    tls: bool
    login: str


class HttpOrigin(msgspec.Struct, frozen=True):
    """The target of connections: host, port, TLS, and the proxy if one is used."""

    host: str
    port: int
    tls: bool
    proxy: Proxy | None

    @property
    def authority(self) -> str:
        """Return host and port as a CONNECT request names them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(eq=False, repr=False)
class Connector:
    """Opens connections. ``_within`` is the limit for TCP and TLS together, in seconds. ``_limit``
    is the largest answer body in bytes."""

    _resolver: GuardedResolver
    _tls: TlsFiles
    _within: float
    _limit: int
    _batcher: WriteBatcher = field(default_factory=WriteBatcher, init=False)
    _usual: UsualAnswer = field(default_factory=UsualAnswer, init=False)

    async def connect(self, origin: HttpOrigin) -> ClientConnection:
        """Open a connection to the origin. Raise RequestFailed if that fails."""
        proxy = origin.proxy
        if proxy is None:
            return await self._direct(
                origin.host, origin.port, tls=origin.tls, plain=not origin.tls
            )
        try:
            reached = await self._direct(
                proxy.host, proxy.port, tls=proxy.tls, plain=True, tunnel=origin.tls
            )
        except RequestFailed as fault:
            raise proxy_fault(f"the proxy cannot be reached: {fault.detail}") from fault
        if not origin.tls:
            return reached
        try:
            return await self._open_tunnel(reached, origin, proxy)
        except BaseException:
            reached.close()
            raise

    async def _direct(
        self, host: str, port: int, *, tls: bool, plain: bool, tunnel: bool = False
    ) -> ClientConnection:
        """Open a connection to the host itself, with TLS if ``tls`` is set. If TLS fails at one
        address, try the other addresses.

        ``plain`` applies the address rules of plain http. With ``tunnel``, the connection is for a
        CONNECT request.
        """
        addresses = await self._addresses(host, plain=plain)
        left = [info for each in addresses for info in addr_to_addr_infos((each, port)) or ()]
        with self._faults():
            async with asyncio.timeout(self._within):
                while True:
                    reached = await start_connection(left, happy_eyeballs_delay=STAGGER)
                    others = remaining_addresses(reached, left)
                    try:
                        return await self._opened(reached, host if tls else None, tunnel=tunnel)
                    except OSError:
                        if not others or len(others) == len(left):
                            raise
                        left = others

    async def _addresses(self, host: str, *, plain: bool) -> Sequence[str]:
        try:
            ip_address(host)
        except ValueError:
            pass
        else:
            return (host,)  # HttpClient has checked a literal address
        try:
            return await self._resolver.addresses(host, plain=plain)
        except AddressBlocked as error:
            raise RequestFailed("blocked-address", describe(error)) from error
        except OSError as error:
            raise RequestFailed("dns", describe(error)) from error

    async def _opened(
        self, reached: socket.socket, name: str | None, *, tunnel: bool
    ) -> ClientConnection:
        """Wrap a connected socket. ``name`` is the host name for the certificate; None means no
        TLS.
        """
        loop = asyncio.get_running_loop()
        own = name is not None and self._tls.shows_own
        connection = ClientConnection(
            loop,
            self._batcher,
            self._limit,
            tunnel=tunnel,
            shows_own=own,
            usual=None if tunnel else self._usual,
        )
        tls: dict[str, Any] = {}
        if name is not None:
            tls = {
                "ssl": self._tls.context,
                "server_hostname": name.rstrip("."),
                "ssl_handshake_timeout": self._within,  # limits an abandoned handshake, too
            }
        try:
            await loop.create_connection(lambda: connection, sock=reached, **tls)
        except BaseException:
            connection.close()  # aborts, because an orderly end of TLS would have no waiter
            raise
        return connection

    async def _open_tunnel(
        self, tunnel: ClientConnection, origin: HttpOrigin, proxy: Proxy
    ) -> ClientConnection:
        """Ask the proxy for a tunnel to the origin, and start TLS inside it.

        An error status that the proxy does not give for itself counts as a failure of the target.
        """
        head = (
            f"CONNECT {origin.authority} HTTP/1.1\r\nHost: {origin.authority}\r\n"
            f"User-Agent: {USER_AGENT}\r\n{proxy_authorization(proxy)}\r\n"
        )
        answer = await tunnel.ask(head.encode(), b"", math.inf)
        if answer.status not in _SUCCESS:
            detail = f"the proxy answered {answer.status}"
            raise (
                proxy_fault(detail)
                if answer.status in _PROXY_REFUSES
                else RequestFailed("connect", detail)
            )
        loop = asyncio.get_running_loop()
        connection = ClientConnection(
            loop,
            self._batcher,
            self._limit,
            shows_own=self._tls.shows_own,
            usual=self._usual,
        )
        with self._faults():
            async with asyncio.timeout(self._within):
                transport = await loop.start_tls(
                    tunnel.transport,
                    connection,
                    self._tls.context,
                    server_hostname=origin.host.rstrip("."),
                    ssl_handshake_timeout=self._within,
                )
        if transport is None:
            raise RequestFailed("connect", "the tunnel was closed")
        connection.connection_made(transport)
        return connection

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except ssl.SSLError as error:
            raise RequestFailed("tls", describe(error)) from error
        except OSError as error:
            if isinstance(error, TimeoutError) and error.errno is None:
                raise RequestFailed(
                    "timeout", f"no connection within {self._within:g} s"
                ) from error
            raise RequestFailed("connect", describe(error)) from error


def remaining_addresses(reached: socket.socket, infos: list[AddrInfoType]) -> list[AddrInfoType]:
    """Return the addresses except the one that the socket has reached.

    A link-local address names its interface in the look-up, and not in the socket.
    """
    try:
        address = reached.getpeername()[0]
    except OSError:  # already reset: the caller sees the error when it opens the socket
        return []
    return [each for each in infos if str(each[4][0]).partition("%")[0] != address]


def proxy_fault(detail: str) -> RequestFailed:
    """Return the failure of the proxy. It does not count against the event, because the proxy
    serves all targets.
    """
    return RequestFailed("proxy", detail, PROXY_PAUSE)


def proxy_authorization(proxy: Proxy) -> str:
    """Return the header line with the login for the proxy, or "" if it has none."""
    return f"Proxy-Authorization: {proxy.login}\r\n" if proxy.login else ""


@lru_cache(maxsize=16)
def read_proxy_url(url: str) -> Proxy:
    """Parse the URL of a proxy, which may contain a user name and password. Raise ValueError if it
    is invalid.
    """
    read = read_url(url)
    if not read.port:
        raise ValueError("not a URL of a proxy")
    login = "" if read.login is None else f"Basic {b64encode(read.login).decode()}"
    return Proxy(read.host, read.port, read.scheme == "https", login)
