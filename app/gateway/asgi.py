"""``/events`` as a plain ASGI callable, for other servers, for tests, and for every request that
``httptools_protocol`` does not take itself. Same resource, same answers, same bounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from app.bindings.headers import FIELD_NAMES
from app.gateway.answers import (
    BODY_TOO_LARGE,
    HEAD_TOO_LARGE,
    TOO_SLOW,
    Answer,
    AnswerHeaders,
)
from app.gateway.request import Request, events_target
from app.gateway.resource import POSTS, EventsResource

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

_CLOSE = (b"connection", b"close")
_FIELD_OVERHEAD = 4


class _Gone(Exception):
    """The peer went away before its request was whole."""


class EventsApp:
    def __init__(self, resource: EventsResource) -> None:
        self._resource = resource

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(scope, receive)
        except _Gone:
            return
        headers: AnswerHeaders = (
            *answer.headers,
            (b"content-length", b"%d" % len(answer.body)),
        )
        if answer in _FINAL and scope["http_version"].startswith("1"):
            headers += (_CLOSE,)  # what is left of the request is not read
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        is_ours, route = events_target(path)
        headers = [
            (FIELD_NAMES[bytes(name)], bytes(value).strip(b" \t"))
            for name, value in scope["headers"]
        ]  # a server that keeps the spelling of names gives us what 0.1 needs
        named = dict(headers)
        if not is_ours:
            return await self._resource.elsewhere(scope["method"], path, named)
        if scope["method"].encode() not in POSTS:
            return self._resource.other(scope["method"], named, route)
        refusal = self._refuse_head(headers, named)
        if refusal is not None:
            return self._resource.refused(refusal)
        body = await self._read(receive)
        if isinstance(body, Answer):
            return self._resource.refused(body)
        return await self._post(Request(headers, named, body, route, scope["query_string"]))

    def _refuse_head(
        self, headers: list[tuple[bytes, bytes]], named: dict[bytes, bytes]
    ) -> Answer | None:
        size = sum(len(name) + len(value) + _FIELD_OVERHEAD for name, value in headers)
        if (
            len(headers) > self._resource.limits.header_fields
            or size > self._resource.limits.header_bytes
        ):
            return HEAD_TOO_LARGE
        return self._resource.refuse_head(headers, named, expects=True)

    async def _read(self, receive: Receive) -> bytes | Answer:
        """The whole body, or why it was not read to its end."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._resource.limits.body_timeout):
                more = True
                while more:
                    event = await receive()
                    if event["type"] == "http.disconnect":
                        raise _Gone
                    body += event.get("body", b"")
                    more = event.get("more_body", False)
                    if len(body) > self._resource.limits.body:
                        return BODY_TOO_LARGE
        except TimeoutError:
            return TOO_SLOW
        return bytes(body)

    async def _post(self, request: Request) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(answer: Answer) -> None:
            if not future.done():
                future.set_result(answer)

        answer = self._resource.post(request, done)
        return answer if answer is not None else await future


_FINAL = (BODY_TOO_LARGE, HEAD_TOO_LARGE, TOO_SLOW)


async def _live(receive: Receive, send: Send) -> None:
    """The lifespan of another server: whoever made the resource starts and stops what it needs."""
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return
