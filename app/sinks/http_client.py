"""One HTTP POST (W1). Holds no policy and never raises for what a target does.

Redirects are never followed (W3), no cookie is kept, no proxy but a configured one is used, at most
``response_limit`` bytes of an answer are read, and nothing of it is decoded. https is verified; plain
http goes only where ``allow_private`` says (reliability 4.3, 5.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec

from app.bindings.http import HttpMessage
from app.delivery.address_guard import is_literal, may_reach
from app.delivery.target_url import TargetUrl, read_url
from app.event.memo import Memo
from app.interfaces import Asking, SinkAnswer, answered
from app.sinks.dns import DNS_TIMEOUT, Lookup, Names, ThreadLookup
from app.sinks.http_answer import Fault, text_of
from app.sinks.http_connect import (
    USER_AGENT,
    Connector,
    Origin,
    Proxy,
    login_of,
    proxy_fault,
    proxy_of,
)
from app.sinks.http_pool import Pool, ProxiedPool
from app.sinks.secrets import LiveSecret
from app.sinks.tls import TlsFiles, trusted_by_system

CONNECT_TIMEOUT = 3.0  # seconds, TCP and TLS
RESPONSE_LIMIT = 65_536  # bytes
CONNECTIONS = 64  # to one host

_CONTROLS = bytes({*range(0x20), 0x7F} - {0x09})  # what no value may hold (RFC 9110 5.5)
_DEFAULTS = {"user-agent": f"User-Agent: {USER_AGENT}\r\n", "accept": "Accept: */*\r\n"}


class _Aim(msgspec.Struct, frozen=True):
    """Of one URL: its connections, and the heads of requests to it by the names of their headers: they lack
    the values, and the length of the body."""

    pool: Pool
    heads: Memo[tuple[str, ...], str]


class HttpClient:
    """A pool of connections for each host, made at the first request, on its loop.

    ``connections``     most connections to one host: the subscription's concurrency.
    ``allow_private``   networks and host patterns that may be reached although private, or by http.
    ``tls``             the authorities that are trusted, and our own certificate.
    ``proxy``           URL of the proxy that every request goes through. It finds the addresses of names
                        then, and is what keeps them from private ones.
    ``lookup``          finds addresses; without one, what the system knows (``ThreadLookup``).
    ``dns_timeout``, ``connect_timeout``   seconds; the total comes with each request.
    ``repeated``        called for each request that is sent a second time, because its connection turned
                        out to be closed.
    """

    def __init__(
        self,
        *,
        allow_private: Sequence[str] = (),
        connections: int = CONNECTIONS,
        response_limit: int = RESPONSE_LIMIT,
        tls: TlsFiles | None = None,
        proxy: LiveSecret | None = None,
        lookup: Lookup | None = None,
        dns_timeout: float = DNS_TIMEOUT,
        connect_timeout: float = CONNECT_TIMEOUT,
        repeated: Callable[[], None] = lambda: None,
    ) -> None:
        self._allow_private = tuple(allow_private)
        self._connections = connections
        self._tls = tls or trusted_by_system()
        self._proxy = proxy
        self._repeated = repeated
        # Behind a proxy only the proxy is looked up, and it was configured.
        reached = self._allow_private if proxy is None else ("*",)
        self.names = Names(lookup or ThreadLookup(), reached, dns_timeout)
        self._connector = Connector(self.names, self._tls, connect_timeout, response_limit)
        self._pools: dict[Origin, Pool] = {}
        self._aim = lru_cache(maxsize=256)(self._take_aim)

    def post(self, url: str, message: HttpMessage, within: float) -> Asking:
        """``within``: seconds, in total, answer included."""
        return self._send("POST", url, message, within)

    async def ask(
        self, url: str, message: HttpMessage, within: float
    ) -> tuple[SinkAnswer, Mapping[str, str]]:
        """OPTIONS, and the headers of the answer, their names in lower case: of several with one name the first."""
        answer = await self._send("OPTIONS", url, message, within)
        pairs = reversed(answer.headers)
        return answer, {text_of(name).lower(): text_of(value) for name, value in pairs}

    async def stop(self) -> None:
        for pool in self._pools.values():
            pool.close()

    def _send(self, method: str, url: str, message: HttpMessage, within: float) -> Asking:
        try:
            pool, head = self._prepared(method, url, message)
        except Fault as fault:
            return answered(fault.answer())
        return pool.ask(head, message.body, within)

    def _prepared(self, method: str, url: str, message: HttpMessage) -> tuple[Pool, bytes]:
        """Where a request goes, and its head. Raises Fault."""
        if self._tls.files and self._tls.look():
            for pool in self._pools.values():
                pool.renew()
        try:
            aim = self._aim(method, url, "" if self._proxy is None else self._proxy())
            _demand_sendable(message.values)
            head = aim.heads[message.names] % (*message.values, len(message.body))
            return aim.pool, head.encode()
        except ValueError as error:  # also for what UTF-8 cannot hold
            raise Fault("bad-request", str(error)) from error

    def _take_aim(self, method: str, text: str, proxy: str) -> _Aim:
        """Connections look up names only, so literal addresses are judged here; behind a proxy also which
        names may have plain http. Raises ValueError, and Fault."""
        url = _read(text)
        by = _proxy(proxy) if proxy else None
        plain = url.scheme == "http"
        if may_reach(url.host, self._allow_private, plain=plain, proxied=bool(by)) is False:
            if is_literal(url.host):
                raise Fault("blocked-address", f"{url.host} is a forbidden address for webhooks")
            raise Fault("blocked-address", f"{url.host} must not be reached by plain http")
        origin = Origin(url.host, url.port, not plain, by)
        pool = self._pools.get(origin)
        if pool is None:
            kind = Pool if by is None else ProxiedPool
            pool = kind(origin, self._connector, self._connections, self._repeated)
            self._pools[origin] = pool
        begin = _begin(method, url, by)
        return _Aim(pool, Memo(lambda names: _head(begin, names)))


def _read(text: str) -> TargetUrl:
    """Raises ValueError in words that repeat nothing of the URL, which may hold a secret."""
    url = read_url(text)
    if url.login is not None:
        raise ValueError("a URL with credentials in it")  # it would be in every log
    return url


def _proxy(text: str) -> Proxy:
    """Its file may have become none: that is no fault of the events. The URL holds a password, perhaps."""
    try:
        return proxy_of(text)
    except ValueError:
        raise proxy_fault("webhooks.proxy is not the URL of a proxy") from None


def _begin(method: str, url: TargetUrl, proxy: Proxy | None) -> str:
    """Return the first lines of a head. A proxy gets the absolute URL of a request by plain http."""
    host = f"Host: {url.authority}\r\n"
    if proxy is None or url.scheme == "https":
        return f"{method} {url.target} HTTP/1.1\r\n{host}"
    return f"{method} {url.text} HTTP/1.1\r\n{host}{login_of(proxy)}"


def _head(begin: str, names: tuple[str, ...]) -> str:
    """The head of requests whose headers have these names. What a message says by itself is not said for it.
    Raises ValueError."""
    _demand_sendable(names)
    own = {name.lower() for name in names}
    usual = [line for name, line in _DEFAULTS.items() if name not in own]
    said = "".join([begin, *usual]).replace("%", "%%")
    lines = [name.replace("%", "%%") + ": %s\r\n" for name in names]
    return "".join([said, *lines, "Content-Length: %d\r\n\r\n"])


def _demand_sendable(texts: Sequence[str]) -> None:
    """All at once: nearly always there is nothing to find."""
    whole = "".join(texts)
    if whole.isascii() and whole.isprintable():
        return
    said = whole.encode()
    if len(said.translate(None, _CONTROLS)) != len(said):
        raise ValueError("a header holds a control character")
