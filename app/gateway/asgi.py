"""What reaches the events listener beside events: other methods and other paths, as an ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from app.bindings.headers import FIELD_NAMES
from app.gateway.answers import Answer
from app.gateway.request import events_target, intake_target
from app.gateway.resource import EventsResource

Scope = MutableMapping[str, Any]


class EventsApp:
    def __init__(self, resource: EventsResource) -> None:
        self._resource = resource

    async def __call__(
        self, scope: Scope, _receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        answer = await self._answer(scope)
        headers = (*answer.headers, (b"content-length", b"%d" % len(answer.body)))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope) -> Answer:
        is_ours, route = events_target(scope["path"])
        named = {FIELD_NAMES[bytes(name)]: bytes(value) for name, value in scope["headers"]}
        if is_ours:
            return self._resource.other(scope["method"], named, route)
        if (intake := intake_target(scope["path"])) is not None:
            return self._resource.at_intake(scope["method"], intake, scope["query_string"])
        return await self._resource.elsewhere(scope["method"], scope["path"], named)
