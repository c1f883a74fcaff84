"""A real CONNECT proxy between us and a real target: whose fault a fault is."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
import trustme

from app.bindings.http import HttpMessage
from app.delivery.outcomes import judge
from app.delivery.plan import PauseEndpoint, RetryPolicy, conclude
from app.interfaces import SinkAnswer
from app.model.secret import FileSecret
from app.sinks.http_client import HttpClient
from app.sinks.http_connect import PROXY_PAUSE
from app.sinks.secrets import LiveSecret
from app.sinks.tls import TlsFiles
from connect_proxy import ConnectProxy
from delivery_fixtures import target as plain
from webhook_target import WebhookTarget, status

__all__ = ["plain"]

EVENT = HttpMessage.of((("ce-id", "1"),), b"data")
Make = Callable[..., HttpClient]


@pytest.fixture
async def target(authority: trustme.CA) -> AsyncIterator[WebhookTarget]:
    """Behind TLS, as hook.example."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("hook.example").configure_cert(context)
    target = WebhookTarget()
    await target.start(context)
    yield target
    await target.stop()


@pytest.fixture
async def proxy(target: WebhookTarget) -> AsyncIterator[ConnectProxy]:
    proxy = ConnectProxy({"hook.example": ("127.0.0.1", target.port)})
    await proxy.start()
    yield proxy
    await proxy.stop()


@pytest.fixture
def posters(clients: Make, tmp_path: Path, authority: trustme.CA) -> Make:
    trusting = partial(clients, allow_private=(), tls=TlsFiles(tmp_path / "ca.pem"))

    def make(proxy: str, **settings: object) -> HttpClient:
        return trusting(proxy=LiveSecret(FileSecret(proxy)), **settings)

    return make


async def post(poster: HttpClient, url: str = "https://hook.example/x", within: float = 30.0):
    return await poster.post(url, EVENT, within)


def is_held_against_nobody(answer: SinkAnswer) -> bool:
    """No step of any event's schedule; the subscription waits."""
    policy = RetryPolicy(schedule=(1.0,), retry_after_max=60.0, hold=3)
    decision = conclude(
        judge(answer.status, answer.fault, frozenset()),
        steps=0,
        asked=answer.hold or None,
        now=100.0,
        jitter=0.5,
        policy=policy,
    )
    return decision == PauseEndpoint(100.0 + PROXY_PAUSE)


async def test_https_goes_through_a_tunnel_to_the_name_itself(
    target: WebhookTarget, proxy: ConnectProxy, posters: Make
) -> None:
    """The certificate is verified behind the proxy, which sees the name and nothing else."""
    poster = posters(proxy.url)
    for _ in range(2):
        assert (await post(poster)).status == 204
    assert proxy.requests[0] == "CONNECT hook.example:443 HTTP/1.1"
    assert target.received[0].header("host") == "hook.example"
    assert target.received[0].body == b"data"
    assert not target.received[0].has("proxy-authorization")


async def test_a_login_in_its_url_is_shown_to_the_proxy_alone(
    target: WebhookTarget, proxy: ConnectProxy, posters: Make
) -> None:
    proxy.login = "Basic dTpw"
    assert (await post(posters(proxy.url.replace("//", "//u:p@")))).status == 204
    assert not target.received[0].has("proxy-authorization")


@pytest.mark.parametrize("refusal", [401, 403, 407, 429])
async def test_a_proxy_that_refuses_is_at_fault_itself(
    target: WebhookTarget, proxy: ConnectProxy, posters: Make, refusal: int
) -> None:
    """407 is also how proxies that guard addresses say no."""
    proxy.refusal = refusal
    answer = await post(posters(proxy.url))
    assert (answer.status, answer.fault) == (None, "proxy")
    assert str(refusal) in answer.detail
    assert is_held_against_nobody(answer)
    assert target.connections == 0


async def test_a_proxy_that_is_away_is_at_fault_itself(proxy: ConnectProxy, posters: Make) -> None:
    await proxy.stop()
    answer = await post(posters(proxy.url))
    assert (answer.status, answer.fault) == (None, "proxy")
    assert is_held_against_nobody(answer)


async def test_a_proxy_whose_name_nobody_knows_is_at_fault_itself(posters: Make) -> None:
    """All that is looked up behind a proxy is the proxy."""
    answer = await post(posters("http://no-such-proxy.invalid:3128"))
    assert (answer.status, answer.fault) == (None, "proxy")
    assert is_held_against_nobody(answer)


@pytest.mark.parametrize("refusal", [500, 502, 503, 504])
async def test_a_target_that_the_proxy_cannot_reach_is_the_targets_fault(
    proxy: ConnectProxy, posters: Make, refusal: int
) -> None:
    """Only this one's events wait, and use no step: nothing was sent."""
    proxy.refusal = refusal
    answer = await post(posters(proxy.url))
    assert (answer.status, answer.fault, answer.hold) == (None, "connect", 0.0)
    assert f"the proxy answered {refusal}" in answer.detail


async def test_a_target_that_is_away_is_the_targets_fault(
    target: WebhookTarget, proxy: ConnectProxy, posters: Make
) -> None:
    await target.stop()
    answer = await post(posters(proxy.url))
    assert (answer.fault, answer.hold) == ("connect", 0.0)


@pytest.mark.parametrize("way", ["silent", "cuts"])
async def test_a_tunnel_that_is_not_made_in_time_or_cut_may_be_either(
    proxy: ConnectProxy, posters: Make, way: str
) -> None:
    """Nobody can tell from outside: it counts as the target's, which was not sent anything."""
    setattr(proxy, way, True)
    answer = await post(posters(proxy.url), within=0.3)
    assert (answer.status, answer.hold) == (None, 0.0)
    assert answer.fault == {"silent": "timeout", "cuts": "reset"}[way]


async def test_a_certificate_that_does_not_fit_is_the_targets_fault(
    target: WebhookTarget, proxy: ConnectProxy, posters: Make
) -> None:
    proxy.hosts["other.example"] = ("127.0.0.1", target.port)
    answer = await post(posters(proxy.url), "https://other.example/")
    assert (answer.fault, answer.hold) == ("tls", 0.0)


async def test_the_targets_own_answers_stay_its_own(
    target: WebhookTarget, proxy: ConnectProxy, posters: Make
) -> None:
    target.answer = lambda _: status(503, "Retry-After: 7")
    answer = await post(posters(proxy.url))
    assert (answer.status, answer.retry_after, answer.hold) == (503, "7", 0.0)


async def test_by_plain_http_only_407_tells_the_proxy_from_the_target(
    proxy: ConnectProxy, plain: WebhookTarget, posters: Make
) -> None:
    target = plain
    proxy.hosts["hook.test"] = ("127.0.0.1", target.port)

    async def ask() -> SinkAnswer:
        poster = posters(proxy.url, allow_private=("hook.test",))  # with connections of its own
        return await post(poster, "http://hook.test/x")

    assert (await ask()).status == 204
    assert target.received[0].path == "http://hook.test/x"
    proxy.refusal = 407
    assert is_held_against_nobody(await ask())
    proxy.refusal = 503
    assert (await ask()).status == 503


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1/", "https://[::1]/", "https://2130706433/", "http://hook.example/"]
)
async def test_what_needs_no_name_is_refused_before_the_proxy_is_asked(
    proxy: ConnectProxy, posters: Make, url: str
) -> None:
    """Literal addresses, and plain http to what nobody named (reliability 4.3)."""
    answer = await post(posters(proxy.url), url)
    assert answer.fault == "blocked-address"
    assert proxy.requests == []
