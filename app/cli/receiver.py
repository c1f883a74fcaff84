"""A webhook receiver: a plain ASGI callable that reads each event and asks what to answer.

``receive`` prints with it; ``demo`` keeps the account with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from app.bindings import http
from app.bindings.record import Decoded
from app.errors import SenderError

BODY_BOUND = 16 * 1024 * 1024  # bytes; a receiver on loopback still takes no endless body

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Arrival(NamedTuple):
    """One request. ``events`` is empty and ``fault`` says why when it carries no CloudEvent."""

    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    events: tuple[Decoded, ...]
    fault: str = ""


class Reply(NamedTuple):
    status: int
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Receiver:
    """The ASGI application. ``answer`` is called once a request, in the order they arrive."""

    def __init__(self, answer: Callable[[Arrival], Reply]) -> None:
        self._answer = answer

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "OPTIONS":
            reply = consent(scope["headers"])
        else:
            body = await _body(receive)
            reply = Reply(413) if body is None else self._answer(read(scope, body))
        await send(
            {"type": "http.response.start", "status": reply.status, "headers": [*reply.headers]}
        )
        await send({"type": "http.response.body", "body": b""})


def read(scope: Mapping[str, Any], body: bytes) -> Arrival:
    headers = tuple((bytes(name), bytes(value)) for name, value in scope["headers"])
    try:
        events = tuple(http.decode(headers, body))
    except SenderError as fault:
        return Arrival(scope["path"], headers, body, (), str(fault))
    return Arrival(scope["path"], headers, body, events)


def consent(headers: list[tuple[bytes, bytes]]) -> Reply:
    """The webhook handshake: every sender that asks may send, at any rate (W1-W8: consent is the
    requested origin itself)."""
    origin = next((value for name, value in headers if name == b"webhook-request-origin"), b"*")
    return Reply(
        200,
        (
            (b"allow", b"POST, OPTIONS"),
            (b"webhook-allowed-origin", origin),
            (b"webhook-allowed-rate", b"*"),
        ),
    )


async def _body(receive: Receive) -> bytes | None:
    """None when it is larger than the bound; it is read to its end all the same."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size <= BODY_BOUND:
            parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts) if size <= BODY_BOUND else None
