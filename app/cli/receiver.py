"""A webhook receiver: an ASGI application that decodes each request and sends the reply that a
callback chooses.

``skybridge receive`` prints the requests, and ``skybridge demo`` counts them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from app.bindings import http
from app.bindings.record import Decoded
from app.errors import SenderError

BODY_BOUND = 16 * 1024 * 1024  # bytes of one request

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Arrival(NamedTuple):
    """A request that the receiver got. If it contains no valid CloudEvent, ``events`` is empty and
    ``fault`` has the reason.
    """

    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    events: tuple[Decoded, ...]
    fault: str = ""


class Reply(NamedTuple):
    """The status and headers that the receiver answers with. The body is empty."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Receiver:
    """An ASGI application that receives webhooks. It calls ``answer`` once for each request, in the
    order in which the requests arrive.
    """

    def __init__(self, answer: Callable[[Arrival], Reply]) -> None:
        self._answer = answer

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "OPTIONS":
            reply = handshake_reply(scope["headers"])
        else:
            body = await _body(receive)
            reply = Reply(413) if body is None else self._answer(read(scope, body))
        await send(
            {"type": "http.response.start", "status": reply.status, "headers": [*reply.headers]}
        )
        await send({"type": "http.response.body", "body": b""})


def read(scope: Mapping[str, Any], body: bytes) -> Arrival:
    """Decode a request. If it contains no valid CloudEvent, the result has the headers, the body
    and the fault.
    """
    headers = tuple((bytes(name), bytes(value)) for name, value in scope["headers"])
    try:
        events = tuple(http.decode(headers, body))
    except SenderError as fault:
        return Arrival(scope["path"], headers, body, (), str(fault))
    return Arrival(scope["path"], headers, body, events)


def handshake_reply(headers: list[tuple[bytes, bytes]]) -> Reply:
    """Return the answer to a webhook handshake. The answer permits the sender to send at any rate
    (webhook specification 4.2).
    """
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
    """Read the whole body. Return None if it is larger than BODY_BOUND bytes."""
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
