"""Send single HTTP POST requests to webhooks (webhook specification 2). Failures of a target are
returned, not raised.

The client follows no redirects, stores no cookies and uses no proxy but the configured one. It
reads at most ``response_limit`` bytes of a body and decodes none of it. Certificates of https are
verified. Plain http is allowed only to the hosts in ``allow_private``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec

from app.bindings.http import HttpMessage
from app.delivery.address_guard import is_literal, may_reach
from app.delivery.target_url import TargetUrl, read_url
from app.event.memo import Memo
from app.interfaces import AnswerCallback, BegunAttempt, PendingAnswer, SinkAnswer, known_answer
from app.sinks.dns import DNS_TIMEOUT, DnsLookup, GuardedResolver, ThreadLookup
from app.sinks.http_answer import RequestFailed, text_of
from app.sinks.http_connect import (
    USER_AGENT,
    Connector,
    HttpOrigin,
    Proxy,
    proxy_authorization,
    proxy_fault,
    read_proxy_url,
)
from app.sinks.http_pool import ConnectionPool, ProxiedConnectionPool
from app.sinks.secrets import LiveSecret
from app.sinks.tls import TlsFiles, trusted_by_system

CONNECT_TIMEOUT = 3.0  # seconds, TCP and TLS
RESPONSE_LIMIT = 65_536  # bytes
CONNECTIONS = 64  # to one host

_CONTROLS = bytes({*range(0x20), 0x7F} - {0x09})  # forbidden in header values (RFC 9110 5.5)
_DEFAULTS = {"user-agent": f"User-Agent: {USER_AGENT}\r\n", "accept": "Accept: */*\r\n"}


class _RequestTemplate(msgspec.Struct, frozen=True):
    """The part of a request that depends on its URL alone.

    ``pool`` has the connections to the host. ``target`` is the path and query of the URL, ``prefix`` what
    precedes them in the request line to a proxy. ``heads`` maps the names of the headers to a format string for
    the head, which lacks the target, the header values and the body length.
    """

    pool: ConnectionPool
    prefix: str
    target: str
    heads: Memo[tuple[str, ...], str]


class HttpClient:
    """An HTTP client with one connection pool for each host. A pool is created at the first
    request, on the running loop.

    Args:
        allow_private: networks and host patterns that may be reached although private, or by plain
            http.
        connections: most connections to one host; the concurrency of the subscription.
        response_limit: most bytes of an answer body.
        tls: the trusted authorities and the client certificate; the authorities of the system by
            default.
        proxy: URL of the proxy for all requests. The proxy resolves host names, so it must block
            private addresses.
        lookup: the resolver of host names; the resolver of the system by default.
        dns_timeout: seconds for one look-up.
        connect_timeout: seconds for TCP and TLS. Each request brings its total limit.
        repeated: called for each request that is sent again because its reused connection was
            closed.
    """

    def __init__(
        self,
        *,
        allow_private: Sequence[str] = (),
        connections: int = CONNECTIONS,
        response_limit: int = RESPONSE_LIMIT,
        tls: TlsFiles | None = None,
        proxy: LiveSecret | None = None,
        lookup: DnsLookup | None = None,
        dns_timeout: float = DNS_TIMEOUT,
        connect_timeout: float = CONNECT_TIMEOUT,
        repeated: Callable[[], None] = lambda: None,
    ) -> None:
        self._allow_private = tuple(allow_private)
        self._connections = connections
        self._tls = tls or trusted_by_system()
        self._proxy = proxy
        self._repeated = repeated
        # With a proxy, only its own configured name is resolved here.
        reached = self._allow_private if proxy is None else ("*",)
        self.names = GuardedResolver(lookup or ThreadLookup(), reached, dns_timeout)
        self._connector = Connector(self.names, self._tls, connect_timeout, response_limit)
        self._pools: dict[HttpOrigin, ConnectionPool] = {}
        self._template = lru_cache(maxsize=256)(self._compile_template)

    def post(self, url: str, message: HttpMessage, within: float) -> PendingAnswer:
        """Send a POST request. ``within`` limits the total time in seconds, including the answer."""
        return self.send("POST", url, message, within)

    def send(
        self, method: str, url: str, message: HttpMessage, within: float, target: str = ""
    ) -> PendingAnswer:
        """Send a request.

        Args:
            method: HTTP method.
            url: the URL, which selects the connections.
            message: headers and body.
            within: seconds in total, including the answer.
            target: path and query of the request line, encoded; those of the URL by default.
        """
        try:
            pool, head = self._prepared(method, url, message, target)
        except RequestFailed as fault:
            return known_answer(fault.answer())
        return pool.ask(head, message.body, within)

    def begin(
        self,
        method: str,
        url: str,
        message: HttpMessage,
        within: float,
        on_answer: AnswerCallback,
        target: str = "",
    ) -> BegunAttempt | None:
        """Send a request without a task, as ``send`` does. ``on_answer`` is called once with its answer.

        Return None if that is not possible now: no connection is idle, or the request cannot be
        sent. Then ``send`` gives the answer.
        """
        try:
            pool, head = self._prepared(method, url, message, target)
        except RequestFailed:
            return None
        return pool.begin(head, message.body, within, on_answer)

    async def ask(
        self, url: str, message: HttpMessage, within: float
    ) -> tuple[SinkAnswer, Mapping[str, str]]:
        """Send an OPTIONS request. Return the answer and its headers by lower-case name.

        Of several headers with one name, the first counts.
        """
        answer = await self.send("OPTIONS", url, message, within)
        pairs = reversed(answer.headers)
        return answer, {text_of(name).lower(): text_of(value) for name, value in pairs}

    async def stop(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            pool.close()

    def _prepared(
        self, method: str, url: str, message: HttpMessage, target: str
    ) -> tuple[ConnectionPool, bytes]:
        """Return the connection pool for a request, and the head of the request. Raise
        RequestFailed if it cannot be sent.
        """
        if self._tls.files and self._tls.look():
            for pool in self._pools.values():
                pool.renew()
        try:
            template = self._template(method, url, "" if self._proxy is None else self._proxy())
            if not message.plain:
                _refuse_control_characters(message.values)
            line = template.prefix + (target or template.target)
            head = template.heads[message.names] % (line, *message.values, len(message.body))
            return template.pool, head.encode()
        except ValueError as error:  # includes text that UTF-8 cannot encode
            raise RequestFailed("bad-request", str(error)) from error

    def _compile_template(self, method: str, text: str, proxy: str) -> _RequestTemplate:
        """Return the request template for a URL.

        Connections check only the addresses of names, so literal addresses are checked here. With a
        proxy, so are the names that may be reached by plain http. Raise ValueError for an invalid
        URL, RequestFailed for a forbidden one.
        """
        url = _read_target(text)
        via = _read_proxy(proxy) if proxy else None
        plain = url.scheme == "http"
        if may_reach(url.host, self._allow_private, plain=plain, proxied=bool(via)) is False:
            if is_literal(url.host):
                raise RequestFailed(
                    "blocked-address", f"{url.host} is a forbidden address for webhooks"
                )
            raise RequestFailed("blocked-address", f"{url.host} must not be reached by plain http")
        origin = HttpOrigin(url.host, url.port, not plain, via)
        pool = self._pools.get(origin)
        if pool is None:
            kind = ConnectionPool if via is None else ProxiedConnectionPool
            pool = kind(origin, self._connector, self._connections, self._repeated)
            self._pools[origin] = pool
        host, prefix = f"Host: {url.authority}\r\n", ""
        if via is not None and plain:  # a proxy gets the absolute URL of a request by plain http
            host += proxy_authorization(via)
            prefix = f"http://{url.authority}"
        heads: Memo[tuple[str, ...], str] = Memo(lambda names: _head_template(method, host, names))
        return _RequestTemplate(pool, prefix, url.target, heads)


def _read_target(text: str) -> TargetUrl:
    """Parse the URL of a webhook. Raise ValueError, without any part of the URL in the message,
    because the URL may hold a secret.
    """
    url = read_url(text)
    if url.login is not None:
        raise ValueError("a URL with credentials in it")  # the password would appear in every log
    return url


def _read_proxy(text: str) -> Proxy:
    """Parse the URL of the proxy. Raise RequestFailed if its file now holds no valid URL.

    That failure does not count against the event. Its message does not quote the URL, which may
    hold a password.
    """
    try:
        return read_proxy_url(text)
    except ValueError:
        raise proxy_fault("webhooks.proxy is not the URL of a proxy") from None


def _head_template(method: str, host: str, names: tuple[str, ...]) -> str:
    """Return a format string for the head of requests whose headers have these names.

    Its values are the target, the header values and the length of the body. ``host`` has the headers of the
    connection: ``Host``, and the login of a proxy.

    A default header is left out if the message has its own. Raise ValueError for a name that cannot
    be sent.
    """
    _refuse_control_characters(names)
    own = {name.lower() for name in names}
    usual = [line for name, line in _DEFAULTS.items() if name not in own]
    fixed = "".join([host, *usual]).replace("%", "%%")
    lines = [name.replace("%", "%%") + ": %s\r\n" for name in names]
    return "".join([f"{method} %s HTTP/1.1\r\n", fixed, *lines, "Content-Length: %d\r\n\r\n"])


def _refuse_control_characters(texts: Sequence[str]) -> None:
    """Raise ValueError if one of the texts holds a control character."""
    whole = "".join(texts)  # one check for all, because a fault is rare
    if whole.isascii() and whole.isprintable():
        return
    fixed = whole.encode()
    if len(fixed.translate(None, _CONTROLS)) != len(fixed):
        raise ValueError("a header holds a control character")
