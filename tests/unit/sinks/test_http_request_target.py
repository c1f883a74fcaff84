"""The request target is what was written (RFC 3986 2.2): each case is compared with the bytes on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from app.bindings import kafka
from app.bindings.http import HttpMessage
from app.features.tokens import ask_directly, ask_through
from app.gateway.issuers import fetch_by_discovery
from app.interfaces import DeliveryRequest
from app.model.message import Message, Partition
from app.model.secret import FileSecret
from app.model.subscription import Subscription
from app.sinks.credentials import SecretCredentials, in_query
from app.sinks.handshake import Handshake
from app.sinks.http_client import HttpClient
from app.sinks.secrets import LiveSecret
from app.sinks.webhook import ExchangeCapture, WebhookSink
from raw_target import PlayedConnection, RawTarget
from worker_doubles import an_event

EVENT = HttpMessage.of((("ce-id", "1"),), b"data")
Make = Callable[..., HttpClient]


async def line_shown(
    client: HttpClient, url: str, credentials: SecretCredentials | None = None
) -> str:
    """Send one event to the URL, and return the request line as an attempt shows it."""
    wanted = {"id": "a", "source": {"broker": "log", "topics": ["t"]}, "sink": url}
    sink = WebhookSink(
        Subscription.model_validate(wanted),
        client,
        credentials=credentials,
        telling=ExchangeCapture(all=True),
    )
    record = an_event(1)
    message = Message(record, Partition("t", 0), "0", 0, 0, 1)
    answer = await sink.send(DeliveryRequest(message, kafka.decode(record), 30.0))
    assert answer.exchange is not None
    return answer.exchange.line


WRITTEN = (
    "/hook?to=a%40b.example&dir=in%2Fbox",
    "/x?",
    "/?",
    "/a%2fb%2Fc%7e%7Ed%61",
    "/%c3%BC?%e4=%ff",
    "/a/../b/./c/..",
    "/a/%2e%2E/b",
    "//a//b//",
    "/a;p=1;q?r;s&t=u+v%20w%2B",
    "/!$&'()*+,;=:@-._~?!$&'()*+,;=:@-._~/?",
    "/?sig=ab%3D%3D&exp=1&sig2=ab==",
)  # fmt: skip
"""Of RFC 3986 all: they are sent as they are."""

ENCODED = {
    "/a b?c d": "/a%20b?c+d",
    "/[x]?f[a]=1": "/%5Bx%5D?f%5Ba%5D=1",
    "/\u00fc?\u00fc": "/%C3%BC?%C3%BC",
    "/%zz%?100%&a=%4": "/%25zz%25?100%25&a=%254",
    '/{a}|\\^`"<>?{b}': "/%7Ba%7D%7C%5C%5E%60%22%3C%3E?%7Bb%7D",
    "/{a}%40/../b%2f?c d=%40": "/%7Ba%7D%40/../b%2f?c+d=%40",
    "/a\tb": "/ab",
}
"""Not of RFC 3986: these characters are encoded, and nothing beside them."""


@pytest.fixture
async def answering() -> AsyncIterator[tuple[RawTarget, list[bytes], str]]:
    """A target that keeps what came, and its URL without a path."""
    came: list[bytes] = []

    async def play(peer: PlayedConnection) -> None:
        while True:
            head = await peer.head()
            sized = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await peer.reader.readexactly(int(sized or 0))
            came.append(head)
            body = b'{"access_token": "t", "expires_in": 60}'
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    target = RawTarget(play)
    url = await target.start()
    yield target, came, url.removesuffix("/hook")
    await target.stop()


def lines(came: list[bytes]) -> list[str]:
    return [head.partition(b"\r\n")[0].decode() for head in came]


@pytest.mark.parametrize(
    ("written", "sent"), [*((each, each) for each in WRITTEN), *ENCODED.items()]
)
async def test_every_request_to_a_webhook_has_the_target_as_written(
    answering: Any, clients: Make, written: str, sent: str
) -> None:
    """The event, the question of the handshake, and the request for a token."""
    _, came, base = answering
    client = clients()
    await client.post(base + written, EVENT, 30.0)
    await client.ask(base + written, EVENT, 30.0)
    await ask_through(client)(base + written, {}, ("id", "secret"), 30.0)
    assert lines(came) == [f"{method} {sent} HTTP/1.1" for method in ("POST", "OPTIONS", "POST")]


@pytest.mark.parametrize(
    ("written", "sent"),
    [("", "/"), ("?a=%40", "/?a=%40"), ("?", "/?"), ("#part", "/"), ("/x?#part", "/x?")],
)
async def test_only_an_empty_path_gets_a_slash_and_a_fragment_stays_here(
    answering: Any, clients: Make, written: str, sent: str
) -> None:
    """RFC 9112 3.2.1."""
    _, came, base = answering
    await clients().post(base + written, EVENT, 30.0)
    assert lines(came) == [f"POST {sent} HTTP/1.1"]


@pytest.mark.parametrize("written", WRITTEN)
async def test_the_tokens_of_a_broker_are_asked_for_with_the_target_as_written(
    answering: Any, written: str
) -> None:
    _, came, base = answering
    await ask_directly(base + written, {"a": "b"}, ("id", "secret"), 30.0)
    assert lines(came) == [f"POST {written} HTTP/1.1"]


async def test_the_keys_of_an_issuer_are_asked_for_with_the_target_as_written() -> None:
    """Of the configuration, behind the issuer as it is written, and of the address of the keys that it names."""
    came: list[bytes] = []

    async def play(peer: PlayedConnection) -> None:
        while True:
            came.append(await peer.head())
            issuer = {"issuer": f"{base}/a/../b%2f", "jwks_uri": f"{base}/./keys%2f?v=%40"}
            body = msgspec.json.encode(issuer)
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    target = RawTarget(play)
    base = (await target.start()).removesuffix("/hook")
    try:
        await fetch_by_discovery(f"{base}/a/../b%2f")()
    finally:
        await target.stop()
    assert lines(came) == [
        "GET /a/../b%2f/.well-known/openid-configuration HTTP/1.1",
        "GET /./keys%2f?v=%40 HTTP/1.1",
    ]


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("/x", "/x?access_token=a%2Bb"),
        ("/x?", "/x?access_token=a%2Bb"),
        ("/x?to=%40&", "/x?to=%40&access_token=a%2Bb"),
        ("/x?to=%40#f", "/x?to=%40&access_token=a%2Bb"),
        ("", "/?access_token=a%2Bb"),
    ],
)
async def test_an_access_token_is_put_behind_what_is_written(
    answering: Any, clients: Make, written: str, sent: str
) -> None:
    _, came, base = answering
    credentials = SecretCredentials(LiveSecret(FileSecret("a+b")), in_query)
    client = clients()
    line = await line_shown(client, base + written, credentials)
    handshake = Handshake(
        base + written, client, origin="o", within=30.0, credentials=credentials, name="s"
    )
    await handshake.settle()
    await handshake.stop()
    assert lines(came) == [f"POST {sent} HTTP/1.1", f"OPTIONS {sent} HTTP/1.1"]
    assert line == f"POST {sent.replace('a%2Bb', '**********')} HTTP/1.1"


@pytest.mark.parametrize("written", WRITTEN)
async def test_what_is_told_of_an_attempt_is_what_was_sent(
    answering: Any, clients: Make, written: str
) -> None:
    _, came, base = answering
    assert await line_shown(clients(), base + written) == lines(came)[0]


async def test_through_a_proxy_the_whole_url_is_as_written(answering: Any, clients: Make) -> None:
    """RFC 9112 3.2.2, the absolute form."""
    _, came, base = answering
    client = clients(proxy=LiveSecret(FileSecret(base)))
    for written in (*WRITTEN, "?a=%40"):
        await client.post(f"http://Hook.test:8080{written}", EVENT, 30.0)
    said = [f"http://hook.test:8080{written}" for written in WRITTEN]
    assert lines(came) == [
        f"POST {each} HTTP/1.1" for each in (*said, "http://hook.test:8080/?a=%40")
    ]


@pytest.mark.parametrize(
    ("written", "login"),
    [
        ("u:p", "dTpw"),  # u:p
        ("us%40er:p%2fw%3A", "dXNAZXI6cC93Og=="),  # us@er:p/w:
        ("u:a+b%2B", "dTphK2Ir"),  # u:a+b+
        ("u:%ff%C3", "dTr/ww=="),  # bytes that are not UTF-8
        ("u:p%zz%", "dTpwJXp6JQ=="),  # u:p%zz%
        ("\u00fc:\u00f6", "w7w6w7Y="),
        ("u:a:b", "dTphOmI="),
        ("u:a@b", "dTphQGI="),
        ("u", "dTo="),
        (":p", "OnA="),
    ],
)
async def test_the_login_of_a_proxy_is_what_its_url_has(
    answering: Any, clients: Make, written: str, login: str
) -> None:
    _, came, base = answering
    client = clients(proxy=LiveSecret(FileSecret(base.replace("//", f"//{written}@"))))
    await client.post("http://hook.test/x", EVENT, 30.0)
    (head,) = came
    assert f"Proxy-Authorization: Basic {login}\r\n".encode() in head
