"""A web page in a browser of this machine sends no events to a listener that only loopback protects."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from app.access.who import ProducerDirectory
from app.gateway.allowed_origins import is_of_other_page
from app.gateway.door import AddressQuotas, Authenticator
from app.gateway.port import is_loopback
from app.model.producer import Producer
from app.model.quota import EventQuota
from app.telemetry import Counters
from intake_bench import EVENT, IntakeBench
from listening import ImmediatePublisher, listening
from producer_listener import KEY, bearer, producers
from publishers import SECRET
from raw_http import RawAnswer, RawConnection, request
from virtual_clock import VirtualClock

FOREIGN = [
    "null", "", "https://evil.example", "http://evil.example:8080", "http://localhost.evil.example",
    "http://evil-localhost", "http://127.0.0.1.evil.example", "http://localhost@evil.example", "file://",
    "http://128.0.0.1", "http://127.0.0.256", "http://127.1", "http://0.0.0.0", "http://[::2]", "http://[::ffff:127.0.0.1]",
    "https://localhost/", "http://localhost:80:80", "http://localhost:x", "http://.localhost", "chrome-extension://localhost",
    "ws://localhost", "localhost", "http://", "http://localhost http://evil.example", "http://127.0.0.1, http://evil.example",
    "http://192.168.0.1", "http://localhost\xa0",
]  # fmt: skip
LOCAL = [
    "http://localhost", "https://localhost:3000", "http://127.0.0.1:8081", "http://127.255.255.254", "http://app.localhost:5173",
    "http://a.b.localhost", "http://[::1]", "https://[::1]:8443", "HTTP://LocalHost:80",
]  # fmt: skip
OPEN_INTAKE: dict[str, Any] = {
    "name": "open",
    "route": "hooks",
    "event": EVENT,
    "verify": {"kind": "none"},
}
KEYED: dict[str, Any] = {
    "name": "key", "route": "hooks", "event": EVENT, "verify": {"kind": "api_key", "secret": SECRET},
}  # fmt: skip
ORDER = b'{"kind": "paid", "plant": 7, "order": {"id": "A-1"}}'
NAMED = [
    ("ce-specversion", "1.0"),
    ("ce-id", "1"),
    ("ce-source", "/shop/1"),
    ("ce-type", "com.example.order.paid"),
]


def door(*, is_open: bool, keyed: bool = False, quota: bool = False) -> Authenticator:
    known = [Producer.model_validate(each) for each in producers("https://i.example")[:1]]
    of: Any = lambda _: None  # noqa: E731
    limit = EventQuota.model_validate({"events": "9/s", "burst": 9})
    addresses = AddressQuotas(limit) if quota else None
    made = ProducerDirectory(known if keyed else [])
    return Authenticator(made, of, VirtualClock(), is_open=is_open, addresses=addresses)


async def ask(port: int, raw: bytes) -> RawAnswer:
    async with await RawConnection.open(port) as peer:
        await peer.send(raw)
        return await peer.answer()


def event(
    origin: str | None, *headers: tuple[str, str], method: str = "POST", target: str = "/events"
) -> bytes:
    sent = [*NAMED, *headers, *([] if origin is None else [("origin", origin)])]
    return request(target, b"{}", headers=sent, method=method)


def is_refused(answer: RawAnswer) -> bool:
    if answer.status != 403:
        return False
    document = json.loads(answer.body)
    (fault,) = document["faults"]
    assert document["type"] == "urn:skybridge:problem:other-origin"
    assert "Cure: " in fault["detail"]
    return True


@pytest.mark.parametrize("origin", FOREIGN)
async def test_a_foreign_page_posts_no_event(origin: str) -> None:
    publisher, counters = ImmediatePublisher(), Counters()
    async with listening(publisher, counters=counters) as server:
        assert is_refused(await ask(server.port, event(origin)))
    assert publisher.requests == []
    assert counters.values()["events_refused"]["other-origin",] == 1


@pytest.mark.parametrize("origin", [*LOCAL, None])
async def test_a_local_page_and_a_program_do(origin: str | None) -> None:
    async with listening(ImmediatePublisher()) as server:
        assert (await ask(server.port, event(origin))).status == 202


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize(
    "target", ["/events", "/events/", "/events/orders", "http://evil.example/events"]
)
async def test_every_way_to_events_is_closed(method: str, target: str) -> None:
    """Under a rebound name too: ``Host`` is not looked at, for a proxy passes its own."""
    async with listening(ImmediatePublisher()) as server:
        assert is_refused(
            await ask(server.port, event("http://evil.example", method=method, target=target))
        )
        assert (await ask(server.port, event(None, method=method, target=target))).status == 202


async def test_the_refusal_comes_before_the_body() -> None:
    async with (
        listening(ImmediatePublisher()) as server,
        await RawConnection.open(server.port) as peer,
    ):
        headers = [*NAMED, ("origin", "null"), ("content-length", "9")]
        await peer.send(request(headers=headers, length=False))
        assert is_refused(await peer.answer())


async def test_one_foreign_origin_of_several_is_enough() -> None:
    async with listening(ImmediatePublisher()) as server:
        assert is_refused(
            await ask(server.port, event("http://localhost", ("origin", "http://evil.example")))
        )


async def test_where_a_credential_is_needed_the_page_needs_it_too() -> None:
    """``access: producers``: the credential decides, whatever page sends it."""
    async with listening(ImmediatePublisher(), door=door(is_open=False, keyed=True)) as server:
        assert (await ask(server.port, event("https://evil.example"))).status == 401
        assert (await ask(server.port, event("https://shop.example", *bearer(KEY)))).status == 202


@pytest.mark.parametrize("keyed", [False, True])
async def test_open_access_with_quotas_or_producers_is_no_credential(keyed: bool) -> None:
    async with listening(
        ImmediatePublisher(), door=door(is_open=True, keyed=keyed, quota=True)
    ) as server:
        assert is_refused(await ask(server.port, event("https://evil.example")))
        assert (await ask(server.port, event(None))).status == 202


async def test_off_loopback_open_access_is_for_pages_too() -> None:
    """The network decides who reaches it; a page of a company's own may send."""
    async with listening(ImmediatePublisher(), host="0.0.0.0") as server:
        assert (await ask(server.port, event("https://shop.example"))).status == 202


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_an_intake_without_verification_takes_nothing_of_a_foreign_page(host: str) -> None:
    """On any address, and whatever ``access`` is: it is open by itself."""
    house = IntakeBench([OPEN_INTAKE, KEYED])
    async with house.open(host=host, door=door(is_open=False, keyed=True)):
        port = house.server.port
        headers = [("x-id", "1"), ("content-type", "text/plain")]
        foreign = ("origin", "https://evil.example")
        assert is_refused(await ask(port, request("/in/open", ORDER, headers=[*headers, foreign])))
        assert is_refused(
            await ask(port, request("/in/open/?a", ORDER, headers=[*headers, foreign]))
        )
        assert house.log.submits == []
        for headers_ok in (headers, [*headers, ("origin", "http://localhost:3000")]):
            assert (await ask(port, request("/in/open", ORDER, headers=headers_ok))).status == 202
        verified = [*headers, foreign, ("x-api-key", SECRET)]
        assert (await ask(port, request("/in/key", ORDER, headers=verified))).status == 202


async def test_a_reload_of_access_holds_from_the_next_request_on() -> None:
    async with listening(ImmediatePublisher()) as server:
        foreign = event("https://shop.example", *bearer(KEY))
        assert is_refused(await ask(server.port, foreign))
        keyed = door(is_open=False, keyed=True)
        server.apply(msgspec.structs.replace(server.resource.policy, door=keyed))
        assert (await ask(server.port, foreign)).status == 202


def test_origins() -> None:
    for origin in FOREIGN:
        assert is_of_other_page([(b"origin", origin.encode())]), origin
    for origin in LOCAL:
        assert not is_of_other_page([(b"origin", origin.encode())]), origin
    assert is_of_other_page([(b"origin", b"http://" + b"a." * 30_000 + b"evil")])


def test_loopback_addresses() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.com", "")))
