"""The plain ASGI callable: the same answers as the short way, for any server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from app.gateway.answers import ACCEPTED, Answer
from app.gateway.asgi import EventsApp
from app.gateway.limits import Limits
from app.gateway.request import Request
from app.gateway.resource import EventsResource
from app.routing.rules import UnknownRoute
from app.telemetry import Counters

LIMITS = Limits(body=100, header_bytes=2000, header_fields=20, body_timeout=0.05)


class Publishing:
    """Answers 202, at once or ``later``."""

    def __init__(self, *, later: bool = False, any_route: bool = True) -> None:
        self.later = later
        self.any = any_route
        self.requests: list[Request] = []

    def takes(self, route: str | None) -> bool:
        if route == "nope":
            raise UnknownRoute(route)
        return self.any

    def publish(self, request: Request, done: Any) -> Answer | None:
        self.requests.append(request)
        if not self.later:
            return ACCEPTED
        asyncio.get_running_loop().call_soon(done, ACCEPTED)
        asyncio.get_running_loop().call_soon(done, ACCEPTED)
        return None


async def call(
    publishing: Publishing,
    path: str = "/events",
    *chunks: bytes,
    method: str = "POST",
    headers: tuple[tuple[bytes, bytes], ...] = (),
    version: str = "1.1",
    ends: bool = True,
    **scope: Any,
) -> Answer | None:
    """One request through the app; None when it answered nothing."""
    events: list[dict[str, Any]] = [
        {"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks
    ]
    if ends:
        events.append({"type": "http.request", "body": b"", "more_body": False})
    sent: list[Any] = []

    async def receive() -> Any:
        return events.pop(0) if events else await asyncio.sleep(10)

    async def send(event: Any) -> None:
        sent.append(event)

    resource = EventsResource(publishing, LIMITS, Counters())
    base = {"type": "http", "path": path, "method": method, "headers": list(headers)}
    scope = {**base, "query_string": b"", "http_version": version, **scope}
    await EventsApp(resource)(scope, receive, send)
    if not sent:
        return None
    start, body = sent
    return Answer(start["status"], tuple(start["headers"]), body["body"])


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_an_event_is_published_and_answered(later: bool, method: str) -> None:
    """H1: PUT is as good as POST."""
    publishing = Publishing(later=later)
    answer = await call(
        publishing, "/events/orders", b"ab", b"c", method=method, query_string=b"key=k"
    )
    assert answer == Answer(202, ((b"content-length", b"0"),))
    (request,) = publishing.requests
    assert (request.body, request.route, request.query) == (b"abc", "orders", b"key=k")


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PATCH", "TRACE"])
async def test_other_methods_are_405_with_allow(method: str) -> None:
    answer = await call(Publishing(), method=method)
    assert answer is not None
    assert answer.status == 405
    assert dict(answer.headers)[b"allow"] == b"POST, PUT, OPTIONS"


async def test_other_paths_are_a_404_problem() -> None:
    answer = await call(Publishing(), "/other")
    assert answer is not None
    assert json.loads(answer.body)["type"] == "urn:skybridge:problem:not-found"
    assert answer.status == 404


async def test_options_consents_to_the_origin_that_asks_and_to_no_other() -> None:
    """Spec 5.3: consent only when asked; the rate goes with it; the callback is never called."""
    asked = await call(
        Publishing(),
        method="OPTIONS",
        headers=(
            (b"webhook-request-origin", b"sender.example.com"),
            (b"webhook-request-callback", b"https://127.0.0.1:1/x"),
            (b"webhook-request-rate", b"120"),
        ),
    )
    plain = await call(Publishing(), method="OPTIONS")
    assert asked is not None
    assert plain is not None
    assert (asked.status, plain.status) == (200, 200)
    assert dict(asked.headers)[b"webhook-allowed-origin"] == b"sender.example.com"
    assert dict(asked.headers)[b"webhook-allowed-rate"] == b"*"
    assert dict(plain.headers) == {b"allow": b"POST, PUT, OPTIONS", b"content-length": b"0"}


async def test_options_consents_where_events_are_taken_and_nowhere_else() -> None:
    """Webhook 4.2: consent if, and only if, the target takes deliveries there."""
    asks = ((b"webhook-request-origin", b"sender.example.com"),)
    named = await call(Publishing(), "/events/orders", method="OPTIONS", headers=asks)
    unknown = await call(Publishing(), "/events/nope", method="OPTIONS", headers=asks)
    without = await call(Publishing(any_route=False), method="OPTIONS", headers=asks)
    assert named is not None
    assert unknown is not None
    assert without is not None
    assert (named.status, unknown.status, without.status) == (200, 404, 200)
    assert b"webhook-allowed-origin" in dict(named.headers)
    assert json.loads(unknown.body)["type"] == "urn:skybridge:problem:unknown-route"
    for refused in (unknown, without):
        assert not [name for name, _ in refused.headers if name.startswith(b"webhook-")]


async def test_a_body_beyond_the_bound_is_413_with_and_without_a_length() -> None:
    """S6."""
    told = await call(Publishing(), headers=((b"content-length", b"101"),), ends=False)
    streamed = await call(Publishing(), "/events", b"x" * 60, b"x" * 60, ends=False)
    for answer in (told, streamed):
        assert answer is not None
        assert (answer.status, dict(answer.headers)[b"connection"]) == (413, b"close")


async def test_http_2_has_no_connection_header() -> None:
    """RFC 9113 8.2.2: it would make the answer malformed."""
    answer = await call(
        Publishing(), headers=((b"content-length", b"101"),), ends=False, version="2"
    )
    assert answer is not None
    assert b"connection" not in dict(answer.headers)


async def test_a_head_beyond_the_bound_is_431() -> None:
    for headers in (((b"x", b"v" * 2001),), ((b"x", b"v"),) * 21):
        answer = await call(Publishing(), headers=headers)
        assert answer is not None
        assert answer.status == 431


async def test_a_body_that_does_not_come_is_408() -> None:
    answer = await call(Publishing(), "/events", b"x", ends=False)
    assert answer is not None
    assert answer.status == 408


async def test_a_peer_that_goes_away_publishes_nothing() -> None:
    publishing = Publishing()

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(event: Any) -> None:
        raise AssertionError(event)

    resource = EventsResource(publishing, LIMITS, Counters())
    scope = {"type": "http", "path": "/events", "method": "POST", "headers": [],
             "query_string": b"", "http_version": "1.1"}  # fmt: skip
    await EventsApp(resource)(scope, receive, send)
    assert publishing.requests == []


async def test_a_mounted_app_knows_its_path() -> None:
    answer = await call(Publishing(), "/bridge/events", root_path="/bridge")
    assert answer is not None
    assert answer.status == 202


async def test_lifespan_and_websockets_are_met() -> None:
    app = EventsApp(EventsResource(Publishing(), LIMITS, Counters()))
    events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[str] = []

    async def receive() -> Any:
        return events.pop(0)

    async def send(event: Any) -> None:
        sent.append(event["type"])

    await app({"type": "lifespan"}, receive, send)
    await app({"type": "websocket"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete", "websocket.close"]
