"""New connections: to an address that a webhook may have or by a proxy, with TLS where the URL says so.

Of several addresses each gets a quarter of a second's start (RFC 8305). https goes through a proxy in
a tunnel that it is asked for (CONNECT), and is verified behind it.
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
from app.sinks.dns import AddressBlocked, Names
from app.sinks.http_answer import Fault
from app.sinks.http_connection import Connection, Outbox, words
from app.sinks.tls import TlsFiles

STAGGER = 0.25  # seconds until the next address is tried too (RFC 8305 8)
PROXY_PAUSE = 5.0  # seconds that a proxy at fault is left alone
PROXY_LOGIN = 407  # only a proxy answers so
USER_AGENT = f"skybridge/{__version__}"

_PROXY_REFUSES = frozenset({401, 403, PROXY_LOGIN, 429})  # it never asked the target
_SUCCESS = range(200, 300)


class Proxy(msgspec.Struct, frozen=True):
    """``login``: the value of ``Proxy-Authorization``, or ""."""

    host: str
    port: int
    tls: bool
    login: str


class Origin(msgspec.Struct, frozen=True):
    """Whom connections lead to, and how. ``authority``: host and port as a request names them."""

    host: str
    port: int
    tls: bool
    proxy: Proxy | None

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(eq=False, repr=False)
class Connector:
    """``within``: seconds for TCP and TLS. ``limit``: most bytes of an answer's body."""

    _names: Names
    _tls: TlsFiles
    _within: float
    _limit: int
    _outbox: Outbox = field(default_factory=Outbox, init=False)

    async def connect(self, origin: Origin) -> Connection:
        """Raises Fault."""
        proxy = origin.proxy
        if proxy is None:
            return await self._direct(
                origin.host, origin.port, tls=origin.tls, plain=not origin.tls
            )
        try:
            reached = await self._direct(
                proxy.host, proxy.port, tls=proxy.tls, plain=True, tunnel=origin.tls
            )
        except Fault as fault:
            raise proxy_fault(f"the proxy cannot be reached: {fault.detail}") from fault
        if not origin.tls:
            return reached
        try:
            return await self._through(reached, origin, proxy)
        except BaseException:
            reached.close()
            raise

    async def _direct(
        self, host: str, port: int, *, tls: bool, plain: bool, tunnel: bool = False
    ) -> Connection:
        """An address that answers and then fails at TLS is not the last word where there are others."""
        addresses = await self._addresses(host, plain=plain)
        left = [info for each in addresses for info in addr_to_addr_infos((each, port)) or ()]
        with self._faults():
            async with asyncio.timeout(self._within):
                while True:
                    reached = await start_connection(left, happy_eyeballs_delay=STAGGER)
                    others = others_than(reached, left)
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
            return (host,)  # judged before, where it is the webhook's
        try:
            return await self._names.addresses(host, plain=plain)
        except AddressBlocked as error:
            raise Fault("blocked-address", words(error)) from error
        except OSError as error:
            raise Fault("dns", words(error)) from error

    async def _opened(
        self, reached: socket.socket, name: str | None, *, tunnel: bool
    ) -> Connection:
        """``name``: whose certificate it must be; None for no TLS."""
        loop = asyncio.get_running_loop()
        own = name is not None and self._tls.shows_own
        connection = Connection(loop, self._outbox, self._limit, tunnel=tunnel, shows_own=own)
        tls: dict[str, Any] = {}
        if name is not None:
            tls = {
                "ssl": self._tls.context,
                "server_hostname": name.rstrip("."),
                "ssl_handshake_timeout": self._within,  # a handshake that was left is held as long
            }
        try:
            await loop.create_connection(lambda: connection, sock=reached, **tls)
        except BaseException:
            connection.close()  # else TLS would end in an orderly way, for which nobody waits
            raise
        return connection

    async def _through(self, tunnel: Connection, origin: Origin, proxy: Proxy) -> Connection:
        """What the proxy says of the target by CONNECT is about the target."""
        head = (
            f"CONNECT {origin.authority} HTTP/1.1\r\nHost: {origin.authority}\r\n"
            f"User-Agent: {USER_AGENT}\r\n{login_of(proxy)}\r\n"
        )
        answer = await tunnel.send(head.encode(), b"", math.inf)
        if answer.status not in _SUCCESS:
            said = f"the proxy answered {answer.status}"
            raise proxy_fault(said) if answer.status in _PROXY_REFUSES else Fault("connect", said)
        loop = asyncio.get_running_loop()
        connection = Connection(loop, self._outbox, self._limit, shows_own=self._tls.shows_own)
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
            raise Fault("connect", "the tunnel was closed")
        connection.connection_made(transport)
        return connection

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except ssl.SSLError as error:
            raise Fault("tls", words(error)) from error
        except OSError as error:
            if isinstance(error, TimeoutError) and error.errno is None:
                raise Fault("timeout", f"no connection within {self._within:g} s") from error
            raise Fault("connect", words(error)) from error


def others_than(reached: socket.socket, infos: list[AddrInfoType]) -> list[AddrInfoType]:
    """What is left to try. A link-local address is written with its interface where it was looked up."""
    try:
        address = reached.getpeername()[0]
    except OSError:  # reset already: who opens it hears so
        return []
    return [each for each in infos if str(each[4][0]).partition("%")[0] != address]


def proxy_fault(detail: str) -> Fault:
    """The proxy serves all targets: nothing is held against the event."""
    return Fault("proxy", detail, PROXY_PAUSE)


def login_of(proxy: Proxy) -> str:
    """The line of a head that shows it, or none."""
    return f"Proxy-Authorization: {proxy.login}\r\n" if proxy.login else ""


@lru_cache(maxsize=16)
def proxy_of(url: str) -> Proxy:
    """Read the URL of a proxy, which may hold a login. Raises ValueError."""
    read = read_url(url)
    if not read.port:
        raise ValueError("not a URL of a proxy")
    login = "" if read.login is None else f"Basic {b64encode(read.login).decode()}"
    return Proxy(read.host, read.port, read.scheme == "https", login)
