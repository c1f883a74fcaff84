"""What reaches the events listener beside events: other methods, other paths, the handshake of a webhook."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.gateway.answers import ACCEPTED, HttpAnswer
from app.gateway.asgi import EventsApp
from app.gateway.intakes import Intakes
from app.gateway.request import EventRequest
from app.gateway.resource import ConsentReceiver, EventsPolicy, EventsResource
from app.routing.rules import UnknownRoute
from app.telemetry import Counters


class Publishing:
    """Takes events where there is a rule for them."""

    def __init__(self, *, any_route: bool = True) -> None:
        self.any = any_route

    def takes(self, route: str | None) -> bool:
        if route == "nope":
            raise UnknownRoute(route)
        return self.any

    def publish(self, request: EventRequest, done: Any) -> HttpAnswer | None:
        return ACCEPTED


async def call(
    publishing: Publishing,
    path: str = "/events",
    *,
    method: str = "GET",
    headers: tuple[tuple[bytes, bytes], ...] = (),
    call_back: ConsentReceiver | None = None,
) -> HttpAnswer:
    """One request through the app."""
    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event)

    resource = EventsResource(
        publishing, EventsPolicy(intakes=Intakes((), Counters())), Counters(), call_back
    )
    scope = {"type": "http", "path": path, "method": method, "headers": list(headers)}
    await EventsApp(resource)(scope, None, send)
    start, body = sent
    return HttpAnswer(start["status"], tuple(start["headers"]), body["body"])


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PATCH", "TRACE"])
async def test_other_methods_are_405_with_allow(method: str) -> None:
    answer = await call(Publishing(), method=method)
    assert answer.status == 405
    assert dict(answer.headers)[b"allow"] == b"POST, PUT, OPTIONS"


async def test_other_paths_are_a_404_problem() -> None:
    answer = await call(Publishing(), "/other")
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
    assert (asked.status, plain.status) == (200, 200)
    assert dict(asked.headers)[b"webhook-allowed-origin"] == b"sender.example.com"
    assert dict(asked.headers)[b"webhook-allowed-rate"] == b"*"
    assert dict(plain.headers) == {b"allow": b"POST, PUT, OPTIONS", b"content-length": b"0"}


async def test_options_consents_where_events_are_taken_and_nowhere_else() -> None:
    """Webhook 4.2: consent if, and only if, the target takes deliveries there."""
    asks = ((b"webhook-request-origin", b"sender.example.com"),)
    named = await call(Publishing(), "/events/orders/", method="OPTIONS", headers=asks)
    unknown = await call(Publishing(), "/events/nope/", method="OPTIONS", headers=asks)
    without = await call(Publishing(any_route=False), method="OPTIONS", headers=asks)
    assert (named.status, unknown.status, without.status) == (200, 404, 200)
    assert b"webhook-allowed-origin" in dict(named.headers)
    assert json.loads(unknown.body)["type"] == "urn:skybridge:problem:unknown-route"
    for refused in (unknown, without):
        assert not [name for name, _ in refused.headers if name.startswith(b"webhook-")]


RATE = b"webhook-allowed-rate"


@pytest.mark.parametrize("rate", [b"0", b"many", b"-1", b"1.5", b"", b"\xb2"])
async def test_a_callback_with_a_bad_rate_is_400_and_consents_to_nothing(rate: bytes) -> None:
    """A rate is a positive integer or ``*`` (webhook 4.2.2). The address may be called again."""
    called: list[str] = []

    async def call_back(key: str, _: str | None) -> bool:
        called.append(key)
        return True

    answer = await call(
        Publishing(), "/handshake/k", method="POST", headers=((RATE, rate),), call_back=call_back
    )
    assert answer.status == 400
    problem = json.loads(answer.body)
    assert problem["type"] == "urn:skybridge:problem:bad-rate"
    assert [fault["at"] for fault in problem["faults"]] == ["header webhook-allowed-rate"]
    assert called == []
    for headers in (((RATE, b"120"),), ((RATE, b"*"),), ()):
        answer = await call(Publishing(), "/handshake/k", headers=headers, call_back=call_back)
        assert answer.status == 200
    await call(Publishing(), "/handshake/k/", call_back=call_back)
    assert called == ["k"] * 4
