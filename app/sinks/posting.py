"""One HTTP POST (W1), by aiohttp. Holds no policy and never raises for what a target does.

Redirects are never followed (W3), no cookie is kept, no proxy but a configured one is used, at most
``response_limit`` bytes of an answer are read. https is verified; plain http goes only where
``allow_private`` says (reliability 4.3, 5.4).
"""

from __future__ import annotations

import io
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from itertools import chain
from types import MappingProxyType

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver
from yarl import URL

from app import __version__
from app.bindings.http import HttpMessage
from app.delivery.address_guard import allowed, host_allowed
from app.interfaces import SinkAnswer
from app.sinks.bounded import BESIDE_BODY, BoundedConnector
from app.sinks.lookup import ThreadLookup
from app.sinks.resolver import DNS_TIMEOUT, AddressBlocked, GuardedResolver
from app.sinks.secrets import LiveSecret
from app.sinks.tls import TlsFiles, trusted_by_system

CONNECT_TIMEOUT = 3.0  # seconds, TCP and TLS
DNS_CACHE = 30  # seconds
RESPONSE_LIMIT = 65_536  # bytes
CONNECTIONS = 64  # to one host
USER_AGENT = f"skybridge/{__version__}"

_BREAKS_A_HEADER = re.compile(r"[\r\n\0]")
_IN_ONE_WRITE = 2**20  # bytes; a larger body is written in pieces
_CLIP = 200  # characters of an error's text
PROXY_PAUSE = 5.0  # seconds that a proxy at fault is left alone
PROXY_LOGIN = 407  # only a proxy answers so
_PROXY_REFUSES = frozenset({401, 403, PROXY_LOGIN, 429})  # it never asked the target
_SUCCESS = range(200, 300)
_INVENTED = ("Content-Type", "Accept-Encoding")  # headers aiohttp would add: nothing is invented

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})

_FAULTS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientConnectorDNSError, "dns"),
    (aiohttp.ClientSSLError, "tls"),
    (ssl.SSLError, "tls"),
    (aiohttp.ClientConnectorError, "connect"),
    (ValueError, "bad-request"),
)


class _Aim(msgspec.Struct, frozen=True):
    url: URL
    plain: bool
    blocked: str = ""


class Poster:
    """One session a scheme, made at the first request, on its loop.

    ``connections``     most connections to one host: the subscription's concurrency.
    ``allow_private``   networks and host patterns that may be reached although private, or by http.
    ``tls``             the authorities that are trusted, and our own certificate.
    ``proxy``           URL of the proxy that every request goes through. It finds the addresses of names
                        then, and is what keeps them from private ones.
    ``replies``         keep the headers of 2xx answers: there may be an event in them.
    ``resolver``        for both schemes; without one, what the system knows (``ThreadLookup``).
    ``dns_timeout``, ``connect_timeout``   seconds; the total comes with each request.
    """

    def __init__(
        self,
        *,
        allow_private: Sequence[str] = (),
        connections: int = CONNECTIONS,
        response_limit: int = RESPONSE_LIMIT,
        tls: TlsFiles | None = None,
        proxy: LiveSecret | None = None,
        replies: bool = False,
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
        self._tls = tls or trusted_by_system()
        self._proxy = proxy
        self._replies = replies
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._aim = lru_cache(maxsize=256)(self._take_aim)

    async def post(self, url: str, message: HttpMessage, within: float) -> SinkAnswer:
        """``within``: seconds, in total, answer included."""
        return await self._request("POST", url, message, within, None)

    async def ask(
        self, url: str, message: HttpMessage, within: float
    ) -> tuple[SinkAnswer, Mapping[str, str]]:
        """OPTIONS, and the headers of the answer: none where none came."""
        came: list[Mapping[str, str]] = []
        answer = await self._request("OPTIONS", url, message, within, came.append)
        return answer, came[0] if came else _NO_HEADERS

    async def _request(
        self,
        method: str,
        url: str,
        message: HttpMessage,
        within: float,
        told: Callable[[Mapping[str, str]], None] | None,
    ) -> SinkAnswer:
        try:
            aim = self._aim(url)
            if aim.blocked:
                return SinkAnswer(None, "blocked-address", aim.blocked)
            if _unsendable(message.headers):
                return SinkAnswer(None, "bad-request", "a header holds CR, LF or NUL")
            async with self._session(plain=aim.plain).request(
                method,
                aim.url,
                data=_payload(message.body),
                headers=message.headers,
                allow_redirects=False,  # W3
                timeout=_timeout(within, self._connect_timeout),
                proxy=None if self._proxy is None else self._proxy(),
            ) as response:
                if told is not None:
                    told(response.headers)
                return await self._answer(response)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if self._proxy is not None and _is_of_proxy(error):
                return _proxy_fault(getattr(error, "status", None), _text(error))
            return self._fault(error, within)

    def _fault(self, error: Exception, within: float) -> SinkAnswer:
        """A time-out in seconds: the error itself has no text, or one that names the URL."""
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            bound = min(self._connect_timeout, within)
            return SinkAnswer(None, "timeout", f"no connection within {bound:g} s")
        if isinstance(error, TimeoutError):
            return SinkAnswer(None, "timeout", f"no answer within {within:g} s")
        return _fault(error)

    async def stop(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def _answer(self, response: aiohttp.ClientResponse) -> SinkAnswer:
        """A status that came counts, also when the body behind it breaks off."""
        if self._proxy is not None and response.status == PROXY_LOGIN:
            return _proxy_fault(response.status)
        detail = ""
        body, cut = b"", True
        try:
            body, cut = await self._read(response)
        except (aiohttp.ClientError, OSError) as error:
            detail = f"answer cut short: {_text(error)}"
        wanted = self._replies and response.status in _SUCCESS
        return SinkAnswer(
            response.status,
            detail=detail,
            retry_after=response.headers.get("Retry-After"),
            body=body,
            headers=response.raw_headers if wanted else (),
            cut=cut,
        )

    async def _read(self, response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
        """The body up to its bound, and whether there is more of it."""
        stream, limit = response.content, self._response_limit
        if stream.at_eof():
            return b"", False
        body = bytearray()
        while len(body) < limit and not stream.at_eof():
            body += await stream.read(limit - len(body))
        cut = not stream.at_eof()
        if cut:
            response.close()  # the rest is not worth reading to keep the connection
        return bytes(body), cut

    def _session(self, *, plain: bool) -> aiohttp.ClientSession:
        if self._tls.files:
            self._tls.look()
        session = self._sessions.get(plain)
        if session is None:
            session = self._sessions[plain] = self._open(plain=plain)
        return session

    def _open(self, *, plain: bool) -> aiohttp.ClientSession:
        inner = self._resolver or ThreadLookup()
        reached = self._allow_private
        if self._proxy is not None:
            reached = ("*",)  # only the proxy is looked up, and it was configured
        connector = BoundedConnector(
            answer_limit=2 * self._response_limit + BESIDE_BODY,
            limit=0,
            limit_per_host=self._connections,
            resolver=GuardedResolver(inner, reached, plain=plain, timeout=self._dns_timeout),
            ttl_dns_cache=DNS_CACHE,
            ssl=self._tls.context,
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
        """The connector asks the resolver for names only, so literal addresses are judged here; behind a
        proxy also which names may have plain http. Raises ValueError."""
        url = URL(text)
        if url.user is not None or url.password is not None:
            raise ValueError("a URL with credentials in it")  # it would be in every log
        host = url.host or ""
        plain = url.scheme == "http"
        if _is_literal(host) and not allowed(host, host, self._allow_private, plain=plain):
            return _Aim(url, plain, f"{host} is an address webhooks may not have")
        if self._proxy is not None and plain and not host_allowed(host, self._allow_private):
            return _Aim(url, plain, f"{host} may not be reached by plain http")
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
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return SinkAnswer(None, "connect", f"the proxy answered {error.status}")
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        return SinkAnswer(None, "bad-request", "not a URL to post to")  # it may hold a secret
    name = next((name for kind, name in _FAULTS if isinstance(error, kind)), "reset")
    return SinkAnswer(None, name, _text(error))


def _is_of_proxy(error: Exception) -> bool:
    """Whether it is the proxy that failed, rather than what is behind it. It is all that we look up and
    connect to; what it says of the target by CONNECT is about the target."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return error.status in _PROXY_REFUSES
    return isinstance(
        error,
        (
            aiohttp.ClientProxyConnectionError,
            aiohttp.ClientConnectorDNSError,
            aiohttp.ConnectionTimeoutError,
        ),
    )


def _proxy_fault(status: int | None, text: str = "") -> SinkAnswer:
    """The proxy serves all targets: nothing is held against the event."""
    said = f"the proxy answered {status}" if status else f"the proxy cannot be reached: {text}"
    return SinkAnswer(None, "proxy", said, hold=PROXY_PAUSE)


def _text(error: Exception) -> str:
    """What this side says of it. The client quotes an answer that it cannot read, and the URL with it."""
    if not isinstance(error, OSError | ValueError):
        return "the answer is broken off, or is no HTTP"
    text = (str(error) or type(error).__name__)[:_CLIP]
    return text.encode("utf-8", "replace").decode()
