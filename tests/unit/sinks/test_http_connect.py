"""How connections come about: which address is tried when, TLS, and proxies."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import trustme

from app import __version__
from app.bindings.http import HttpMessage
from app.interfaces import SinkAnswer
from app.model.secret import FileSecret
from app.sinks.http_client import HttpClient
from app.sinks.http_connect import STAGGER, others_than
from app.sinks.secrets import LiveSecret
from app.sinks.tls import TlsFiles
from connect_proxy import ConnectProxy
from raw_target import Played, RawTarget
from webhook_target import WebhookTarget
from worker_doubles import until

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
    plain = RawTarget(lambda played: played.say(b"HTTP/1.1 400 X\r\n\r\n"))
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
    assert others_than(cast("Any", Reached()), infos) == infos[1:]
    assert others_than(cast("Any", Reset()), infos) == []


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

    async def play(played: Played) -> None:
        await played.until_left()

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
