"""One HTTP POST to a webhook (W1), by aiohttp. Holds no policy and never raises for what a target does.

Redirects are never followed (W3), no cookie is kept, no proxy of the environment is used, at most
``response_limit`` bytes of an answer are read. https is verified; plain http goes only where
``allow_private`` says (reliability 4.3, 5.4).
"""

from __future__ import annotations

import io
import re
import ssl
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address
from itertools import chain
from pathlib import Path

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver
from yarl import URL

from app import __version__
from app.delivery.address_guard import allowed
from app.interfaces import SinkAnswer, SinkRequest
from app.sinks.resolver import DNS_TIMEOUT, AddressBlocked, GuardedResolver

CONNECT_TIMEOUT = 3.0  # seconds, TCP and TLS
DNS_CACHE = 30  # seconds
RESPONSE_LIMIT = 65_536  # bytes
CONNECTIONS = 64  # to one host
USER_AGENT = f"skybridge/{__version__}"

_BREAKS_A_HEADER = re.compile(r"[\r\n\0]")
_IN_ONE_WRITE = 2**20  # bytes; a larger body is written in pieces
_CLIP = 200  # characters of an error's text
_INVENTED = ("Content-Type", "Accept-Encoding")  # headers aiohttp would add: nothing is invented

_FAULTS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientConnectorDNSError, "dns"),
    (aiohttp.ClientSSLError, "tls"),
    (ssl.SSLError, "tls"),
    (TimeoutError, "timeout"),
    (aiohttp.ClientConnectorError, "connect"),
    (ValueError, "bad-request"),
)


class _Aim(msgspec.Struct, frozen=True):
    url: URL
    plain: bool
    blocked: str = ""


class WebhookSink:
    """Fills ``interfaces.Sink``. One session a scheme, made at the first attempt, on its loop.

    ``connections``     most connections to one host: the subscription's concurrency.
    ``allow_private``   networks and host patterns that may be reached although private, or by http.
    ``ca_file``         PEM certificates trusted beside the system's.
    ``dns_timeout``, ``connect_timeout``   seconds; the total comes with each request.
    """

    def __init__(
        self,
        *,
        allow_private: Sequence[str] = (),
        connections: int = CONNECTIONS,
        response_limit: int = RESPONSE_LIMIT,
        ca_file: Path | None = None,
        resolver: AbstractResolver | None = None,
        dns_timeout: float = DNS_TIMEOUT,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        self._allow_private = tuple(allow_private)
        self._connections = connections
        self._response_limit = response_limit
        self._resolver = resolver
        self._dns_timeout = dns_timeout
        self._connect_timeout = connect_timeout
        self._tls = ssl.create_default_context()
        if ca_file is not None:
            self._tls.load_verify_locations(ca_file)
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._aim = lru_cache(maxsize=256)(self._take_aim)

    async def send(self, request: SinkRequest) -> SinkAnswer:
        try:
            aim = self._aim(request.url)
            if aim.blocked:
                return SinkAnswer(None, "blocked-address", aim.blocked)
            if _unsendable(request.headers):
                return SinkAnswer(None, "bad-request", "a header holds CR, LF or NUL")
            async with self._session(plain=aim.plain).post(
                aim.url,
                data=_payload(request.body),
                headers=request.headers,
                allow_redirects=False,  # W3
                timeout=_timeout(request.timeout, self._connect_timeout),
            ) as response:
                return await self._answer(response)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return _fault(error)

    async def stop(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def _answer(self, response: aiohttp.ClientResponse) -> SinkAnswer:
        """A status that came counts, also when the body behind it breaks off."""
        detail = ""
        body = b""
        try:
            body = await self._read(response)
        except (aiohttp.ClientError, OSError) as error:
            detail = f"answer cut short: {_text(error)}"
        return SinkAnswer(
            response.status,
            detail=detail,
            retry_after=response.headers.get("Retry-After"),
            body=body,
        )

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        stream, limit = response.content, self._response_limit
        if stream.at_eof():
            return b""
        body = bytearray()
        while len(body) < limit and not stream.at_eof():
            body += await stream.read(limit - len(body))
        if not stream.at_eof():
            response.close()  # the rest is not worth reading to keep the connection
        return bytes(body)

    def _session(self, *, plain: bool) -> aiohttp.ClientSession:
        session = self._sessions.get(plain)
        if session is None:
            session = self._sessions[plain] = self._open(plain=plain)
        return session

    def _open(self, *, plain: bool) -> aiohttp.ClientSession:
        inner = self._resolver or aiohttp.ThreadedResolver()
        connector = aiohttp.TCPConnector(
            limit=0,
            limit_per_host=self._connections,
            resolver=GuardedResolver(
                inner, self._allow_private, plain=plain, timeout=self._dns_timeout
            ),
            ttl_dns_cache=DNS_CACHE,
            ssl=self._tls,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": USER_AGENT},
            skip_auto_headers=_INVENTED,
            auto_decompress=False,
            trust_env=False,
        )

    def _take_aim(self, text: str) -> _Aim:
        """The connector asks the resolver for names only, so literal addresses are judged here."""
        url = URL(text)
        host = url.host or ""
        plain = url.scheme == "http"
        if _is_literal(host) and not allowed(host, host, self._allow_private, plain=plain):
            return _Aim(url, plain, f"{host} is an address webhooks may not have")
        return _Aim(url, plain)


def _is_literal(host: str) -> bool:
    """An address rather than a name, also in the spellings that only resolvers know (``127.1``,
    ``0x7f000001``, ``2130706433``): the guard refuses what it cannot read."""
    try:
        ip_address(host)
    except ValueError:
        last = host.rstrip(".").rpartition(".")[2]
        return last.isdecimal() or last.startswith(("0x", "0X"))
    return True


def _unsendable(headers: Sequence[tuple[str, str]]) -> bool:
    """One search over all of it: nearly always there is nothing to find."""
    return _BREAKS_A_HEADER.search("".join(chain.from_iterable(headers))) is not None


def _payload(body: bytes) -> bytes | io.BytesIO:
    return body if len(body) < _IN_ONE_WRITE else io.BytesIO(body)


@lru_cache(maxsize=64)
def _timeout(total: float, connect: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total, sock_connect=min(connect, total))


def _fault(error: Exception) -> SinkAnswer:
    if isinstance(error.__cause__, AddressBlocked):
        return SinkAnswer(None, "blocked-address", _text(error.__cause__))
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        return SinkAnswer(None, "bad-request", "not a URL to post to")  # it may hold a secret
    name = next((name for kind, name in _FAULTS if isinstance(error, kind)), "reset")
    return SinkAnswer(None, name, _text(error))


def _text(error: Exception) -> str:
    text = (str(error) or type(error).__name__)[:_CLIP]
    return text.encode("utf-8", "replace").decode()  # it may quote the target's own bytes
