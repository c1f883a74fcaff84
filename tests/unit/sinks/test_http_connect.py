"""How connections come about: which address is tried when, TLS, and proxies."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import trustme

from app import __version__
from app.bindings.http import HttpMessage
from app.delivery.outcomes import judge
from app.interfaces import SinkAnswer
from app.model.secret import FileSecret
from app.sinks.http_client import HttpClient
from app.sinks.http_connect import STAGGER, remaining_addresses
from app.sinks.secrets import LiveSecret
from app.sinks.tls import TlsFiles
from connect_proxy import ConnectProxy
from raw_target import PlayedConnection, RawTarget
from waiting import until
from webhook_target import WebhookTarget

EVENT = HttpMessage.of((("ce-id", "1"),), b"data")
WITHIN = 60.0

Make = Callable[..., HttpClient]


class Names:
    """Every name has these addresses."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(self, host: str) -> Sequence[str]:
        return self.addresses


@pytest.fixture
def trusting(tmp_path: Path, authority: trustme.CA) -> TlsFiles:
    return TlsFiles(tmp_path / "ca.pem")


@pytest.fixture
def server_side(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("hook.test", "127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
async def target() -> AsyncIterator[WebhookTarget]:
    target = WebhookTarget()
    yield target
    await target.stop()


@pytest.fixture
async def proxy(authority: trustme.CA) -> AsyncIterator[ConnectProxy]:
    proxy = ConnectProxy({})
    yield proxy
    await proxy.stop()


@pytest.fixture
def black_hole() -> Iterator[tuple[str, int]]:
    """An address and port where connections are neither taken nor refused: its queue is full."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.2", 0))
        deaf.listen(0)
        address, port = deaf.getsockname()
        filling = [socket.socket() for _ in range(4)]
        for each in filling:
            each.setblocking(False)
            each.connect_ex((address, port))
        yield address, port
        for each in filling:
            each.close()


async def post(client: HttpClient, url: str, within: float = WITHIN) -> SinkAnswer:
    return await client.post(url, EVENT, within)


async def test_an_address_that_refuses_costs_no_wait(clients: Make, target: WebhookTarget) -> None:
    await target.start()
    client = clients(lookup=Names("127.0.0.3", "::1", "127.0.0.1"))
    assert (await post(client, f"http://hook.test:{target.port}/")).status == 204


async def test_an_address_that_says_nothing_is_overtaken(
    clients: Make, target: WebhookTarget, black_hole: tuple[str, int]
) -> None:
    """RFC 8305 5: after a quarter of a second, while the first may still answer."""
    deaf, target.port = black_hole
    await target.start()
    client = clients(lookup=Names(deaf, "127.0.0.1"), connect_timeout=30.0)
    began = asyncio.get_running_loop().time()
    assert (await post(client, f"http://hook.test:{target.port}/")).status == 204
    assert STAGGER <= asyncio.get_running_loop().time() - began < 20.0
    assert target.connections == 1


async def test_where_no_address_answers_it_is_a_time_out(
    clients: Make, black_hole: tuple[str, int]
) -> None:
    deaf, port = black_hole
    client = clients(lookup=Names(deaf), connect_timeout=0.1)
    answer = await post(client, f"http://hook.test:{port}/")
    assert (answer.fault, answer.detail) == ("timeout", "no connection within 0.1 s")


async def test_where_all_refuse_each_refusal_is_told(clients: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        client = clients(lookup=Names("127.0.0.1", "127.0.0.3", "::1"))
        answer = await post(client, f"http://hook.test:{port}/")
    assert (answer.status, answer.fault) == (None, "connect")
    assert all(address in answer.detail for address in ("127.0.0.1", "127.0.0.3", "::1"))


async def test_the_guard_judges_each_address_of_a_name(
    clients: Make, target: WebhookTarget
) -> None:
    """Reliability 4.3: the forbidden one is not tried, first as it is and ready as it would be."""
    other = WebhookTarget()
    await target.start()
    other.port = target.port
    await other.start(host="127.0.0.9")
    client = clients(lookup=Names("127.0.0.9", "127.0.0.1"), allow_private=("127.0.0.1/32",))
    for _ in range(4):
        assert (await post(client, f"http://hook.test:{target.port}/")).status == 204
    assert other.connections == 0
    await other.stop()


async def test_an_ipv6_literal_is_asked_for_as_it_is(clients: Make, target: WebhookTarget) -> None:
    await target.start(host="::1")
    assert (await post(clients(), f"http://[::1]:{target.port}/")).status == 204
    assert target.received[0].header("host") == f"[::1]:{target.port}"


@pytest.mark.parametrize("host", ["hook.test", "hook.test.", "HOOK.test"])
async def test_the_name_is_shown_and_verified(
    clients: Make,
    target: WebhookTarget,
    server_side: ssl.SSLContext,
    trusting: TlsFiles,
    host: str,
) -> None:
    shown: list[str | None] = []
    server_side.sni_callback = lambda _, name, __: shown.append(name)
    await target.start(server_side)
    client = clients(tls=trusting, lookup=Names("127.0.0.1"))
    for _ in range(2):
        assert (await post(client, f"https://{host}:{target.port}/")).status == 204
    assert (shown, target.connections) == (["hook.test"], 1)


async def test_an_address_without_tls_is_not_the_last_word(
    clients: Make, target: WebhookTarget, server_side: ssl.SSLContext, trusting: TlsFiles
) -> None:
    """One of two machines behind a name is out of order."""
    await target.start(server_side)
    plain = RawTarget(lambda played: played.send(b"HTTP/1.1 400 X\r\n\r\n"))
    plain.port = target.port
    await plain.start(host="127.0.0.9")
    client = clients(tls=trusting, lookup=Names("127.0.0.9", "127.0.0.1"))
    assert (await post(client, f"https://hook.test:{target.port}/")).status == 204
    assert plain.connections == 1
    await plain.stop()


def test_what_is_left_to_try_is_every_other_address() -> None:
    """A link-local address is looked up with its interface, and its socket tells it without."""

    class Reached:
        def getpeername(self) -> tuple[str, int]:
            return ("fe80::1", 443)

    class Reset:
        def getpeername(self) -> tuple[str, int]:
            raise OSError(107, "not connected")

    infos: Any = [(0, 0, 0, "", (address, 443)) for address in ("fe80::1%eth0", "192.0.2.1")]
    assert remaining_addresses(cast("Any", Reached()), infos) == infos[1:]
    assert remaining_addresses(cast("Any", Reset()), infos) == []


async def test_a_large_body_arrives_whole_over_tls(
    clients: Make, target: WebhookTarget, server_side: ssl.SSLContext, trusting: TlsFiles
) -> None:
    await target.start(server_side)
    client = clients(tls=trusting, lookup=Names("127.0.0.1"))
    body = bytes(range(256)) * 2**14
    for _ in range(2):
        message = HttpMessage.of((), body)
        answer = await client.post(f"https://hook.test:{target.port}/", message, WITHIN)
        assert answer.status == 204
    assert [request.body == body for request in target.received] == [True, True]
    assert target.connections == 1


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_handshake_that_hangs_ends(clients: Make, trusting: TlsFiles, leaves: bool) -> None:
    """Within the time to connect, and with its caller."""

    async def play(played: PlayedConnection) -> None:
        await played.bytes_until_closed()

    target = RawTarget(play)
    url = (await target.start()).replace("http:", "https:")
    client = clients(tls=trusting, connect_timeout=30.0 if leaves else 0.2, connections=1)
    asked = asyncio.create_task(post(client, url))
    await until(lambda: target.connections == 1)
    if leaves:
        asked.cancel()
    (done, _) = await asyncio.wait([asked])
    assert done.pop().cancelled() is leaves
    if not leaves:
        assert asked.result().detail == "no connection within 0.2 s"
    await until(lambda: target.gone == 1)
    (pool,) = client._pools.values()
    assert pool._free == 1
    await target.stop()


async def test_a_proxy_is_told_the_whole_url_and_its_login(
    clients: Make, target: WebhookTarget, proxy: ConnectProxy
) -> None:
    await target.start()
    await proxy.start()
    proxy.hosts["hook.test"] = ("127.0.0.1", target.port)
    by = LiveSecret(FileSecret(proxy.url.replace("//", "//u%40:p%3A@")))
    client = clients(proxy=by)
    for _ in range(2):
        assert (await post(client, "http://hook.test:8080/x?a=b#c")).status == 204
    request = target.received[1]
    assert request.path == "http://hook.test:8080/x?a=b"
    assert request.header("host") == "hook.test:8080"
    assert request.header("proxy-authorization") == "Basic dUA6cDo="
    assert len(proxy.requests) == target.connections == 1


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_a_tunnel_is_asked_for_by_name_and_port(
    clients: Make,
    target: WebhookTarget,
    proxy: ConnectProxy,
    server_side: ssl.SSLContext,
    trusting: TlsFiles,
    version: bytes,
) -> None:
    """What says that a tunnel begins has no body, whatever it says of one (RFC 9110 9.3.6)."""
    await target.start(server_side)
    await proxy.start()
    proxy.hosts["hook.test"] = ("127.0.0.1", target.port)
    proxy.welcome = b"HTTP/1.1 100 X\r\n\r\nHTTP/%b 200 OK\r\nContent-Length: 9\r\n\r\n" % version
    by = LiveSecret(FileSecret(proxy.url.replace("//", "//u:p@")))
    client = clients(proxy=by, tls=trusting)
    for _ in range(2):
        assert (await post(client, "https://hook.test/")).status == 204
    assert proxy.heads == [
        b"CONNECT hook.test:443 HTTP/1.1\r\nHost: hook.test:443\r\n"
        b"User-Agent: skybridge/%b\r\nProxy-Authorization: Basic dTpw\r\n\r\n"
        % __version__.encode()
    ]
    assert not target.received[0].has("proxy-authorization")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_may_be_behind_tls_itself(
    clients: Make,
    target: WebhookTarget,
    proxy: ConnectProxy,
    server_side: ssl.SSLContext,
    trusting: TlsFiles,
    scheme: str,
) -> None:
    """TLS in TLS for https."""
    await target.start(server_side if scheme == "https" else None)
    await proxy.start(server_side)
    proxy.hosts["hook.test"] = ("127.0.0.1", target.port)
    by = LiveSecret(FileSecret(proxy.url.replace("http:", "https:")))
    client = clients(proxy=by, tls=trusting)
    for _ in range(2):
        answer = await post(client, f"{scheme}://hook.test/x")
        assert (answer.status, answer.detail) == (204, "")
    assert len(proxy.requests) == 1


async def test_a_proxy_whose_certificate_does_not_fit_is_at_fault_itself(
    clients: Make, proxy: ConnectProxy, server_side: ssl.SSLContext
) -> None:
    await proxy.start(server_side)
    by = LiveSecret(FileSecret(proxy.url.replace("http:", "https:")))
    answer = await post(clients(proxy=by), "https://hook.test/")
    assert (answer.status, answer.fault) == (None, "proxy")


async def _a_closed_port(clients: Make, target: WebhookTarget, tmp_path: Path) -> SinkAnswer:
    await target.start()
    await target.stop()
    return await post(clients(), target.url)


async def _an_unknown_name(clients: Make, target: WebhookTarget, tmp_path: Path) -> SinkAnswer:
    return await post(clients(lookup=Nameless()), "http://hook.test/")


async def _a_guarded_name(clients: Make, target: WebhookTarget, tmp_path: Path) -> SinkAnswer:
    client = clients(lookup=Names("10.0.0.1"), allow_private=())
    return await post(client, "https://hook.test/")


async def _a_guarded_address(clients: Make, target: WebhookTarget, tmp_path: Path) -> SinkAnswer:
    return await post(clients(allow_private=()), "https://10.0.0.1/")


async def _no_tls(clients: Make, target: WebhookTarget, tmp_path: Path) -> SinkAnswer:
    async def answer_at_once(played: PlayedConnection) -> None:
        await played.send(b"HTTP/1.1 400 no TLS here\r\n\r\n")
        await played.bytes_until_closed()

    raw = RawTarget(answer_at_once)
    try:
        return await post(clients(), (await raw.start()).replace("http:", "https:"))
    finally:
        await raw.stop()


async def _an_expired_certificate(
    clients: Make, target: WebhookTarget, tmp_path: Path
) -> SinkAnswer:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "expired.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    authority.issue_cert("127.0.0.1", not_after=yesterday).configure_cert(context)
    await target.start(context)
    client = clients(tls=TlsFiles(tmp_path / "expired.pem"))
    return await post(client, target.url.replace("http:", "https:"))


class Nameless:
    async def resolve(self, host: str) -> Sequence[str]:
        raise OSError(f"{host} is unknown")


@pytest.mark.parametrize(
    ("try_it", "fault"),
    [
        (_a_closed_port, "connect"),
        (_an_unknown_name, "dns"),
        (_a_guarded_name, "blocked-address"),
        (_a_guarded_address, "blocked-address"),
        (_no_tls, "tls"),
        (_an_expired_certificate, "tls"),
    ],
)
async def test_an_attempt_that_ends_before_its_first_byte_is_not_sent(
    clients: Make,
    target: WebhookTarget,
    tmp_path: Path,
    try_it: Callable[..., Awaitable[SinkAnswer]],
    fault: str,
) -> None:
    answer = await try_it(clients, target, tmp_path)
    assert (answer.status, answer.fault) == (None, fault), answer.detail
    assert is_unsent(answer)
    assert target.received == []


def is_unsent(answer: SinkAnswer) -> bool:
    return judge(answer.status, answer.fault, frozenset(), unsent=answer.unsent).unsent


async def test_a_time_out_while_connecting_is_not_sent(
    clients: Make, black_hole: tuple[str, int]
) -> None:
    """By the bound of the connection, and by that of the attempt."""
    deaf, port = black_hole
    for bounds, within in (({"connect_timeout": 0.1}, WITHIN), ({"connect_timeout": 30.0}, 0.1)):
        answer = await post(
            clients(lookup=Names(deaf), **bounds), f"http://hook.test:{port}/", within
        )
        assert answer.fault == "timeout"
        assert is_unsent(answer)


@pytest.mark.parametrize("way", ["silent", "cuts", 502, 403])
async def test_a_request_whose_tunnel_is_not_made_is_not_sent(
    clients: Make, proxy: ConnectProxy, way: str | int
) -> None:
    await proxy.start()
    if isinstance(way, int):
        proxy.refusal = way
    else:
        setattr(proxy, way, True)
    by = LiveSecret(FileSecret(proxy.url))
    assert is_unsent(await post(clients(proxy=by), "https://hook.test/", within=0.3))


async def test_what_the_target_read_was_sent(clients: Make) -> None:
    async def silent(played: PlayedConnection) -> None:
        await played.request()
        await asyncio.Event().wait()

    async def hangs_up(played: PlayedConnection) -> None:
        await played.request()

    for play, fault in ((silent, "timeout"), (hangs_up, "reset")):
        raw = RawTarget(play)
        answer = await post(clients(), await raw.start(), within=0.5)
        assert (answer.fault, is_unsent(answer)) == (fault, False)
        await raw.stop()


class Refusing:
    """A target that demands a client certificate of its authority in TLS 1.3, without an event loop: it sends
    its alert as most servers do. ``read``: what it read of requests."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.read: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}/hook"

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self._socket.accept()
            except OSError:
                return
            with (
                taken.dup() as kept
            ):  # a close with unread bytes would be a reset, which overtakes the alert
                try:
                    with self._context.wrap_socket(taken, server_side=True) as made:
                        self.read.append(made.recv(100))
                except OSError:
                    _read_to_the_end(kept)

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


def _read_to_the_end(peer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(1 << 16):
            pass


def demanding(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def showing(own: str, authority: trustme.CA, tmp_path: Path) -> TlsFiles:
    """What a client shows: none, one of another authority, one that has expired, one that is good."""
    if own == "none":
        return TlsFiles(tmp_path / "ca.pem")
    issuer = trustme.CA() if own == "foreign" else authority
    after = datetime.now(UTC) - timedelta(days=1) if own == "expired" else None
    issued = issuer.issue_cert("client.test", not_after=after)
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
    return TlsFiles(tmp_path / "ca.pem", tmp_path / "own.pem", tmp_path / "own.pem")


@pytest.mark.parametrize(
    ("own", "size"),
    [("none", 4), ("foreign", 4), ("foreign", 2**20), ("expired", 4), ("expired", 2**20)],
)
async def test_a_client_certificate_that_is_refused_is_not_sent(
    clients: Make, authority: trustme.CA, tmp_path: Path, own: str, size: int
) -> None:
    """In TLS 1.3 the refusal comes after the client's part of the handshake, with the first read."""
    refusing = Refusing(demanding(authority))
    client = clients(tls=showing(own, authority, tmp_path))
    answer = await client.post(refusing.url, HttpMessage.of((), b"x" * size), WITHIN)
    refusing.stop()
    assert (answer.status, answer.fault) == (None, "tls"), answer.detail
    assert is_unsent(answer)
    assert refusing.read == []


@pytest.mark.parametrize("own", ["foreign", "expired"])
@pytest.mark.parametrize("size", [4, 2**20])
async def test_a_client_certificate_that_is_refused_without_an_alert_is_not_sent(
    clients: Make, target: WebhookTarget, authority: trustme.CA, tmp_path: Path, own: str, size: int
) -> None:
    """The server of asyncio closes the connection and says nothing."""
    await target.start(demanding(authority))
    client = clients(tls=showing(own, authority, tmp_path))
    url = target.url.replace("http:", "https:")
    answer = await client.post(url, HttpMessage.of((), b"x" * size), WITHIN)
    assert (answer.status, answer.fault) == (None, "tls"), answer.detail
    assert is_unsent(answer)
    assert target.received == []


async def test_a_target_that_hangs_up_after_the_handshake_was_sent_the_request(
    clients: Make, authority: trustme.CA, tmp_path: Path
) -> None:
    """Only a certificate that was not accepted is no attempt: an event that fells its target has its schedule."""

    async def hangs_up(played: PlayedConnection) -> None:
        await played.request()

    raw = RawTarget(hangs_up)
    url = await raw.start(demanding(authority))
    answer = await post(clients(tls=showing("good", authority, tmp_path)), url)
    await raw.stop()
    assert (answer.fault, is_unsent(answer)) == ("reset", False), answer.detail
