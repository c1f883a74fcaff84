"""Answer the requests of the events listener that carry no events, as an ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from app.bindings.headers import FIELD_NAMES
from app.gateway.answers import HttpAnswer
from app.gateway.request import events_target, intake_target
from app.gateway.resource import EventsResource

Scope = MutableMapping[str, Any]


class EventsApp:
    """The ASGI application for all requests that do not take the fast path."""

    def __init__(self, resource: EventsResource) -> None:
        self._resource = resource

    async def __call__(
        self, scope: Scope, _receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        answer = await self._answer(scope)
        headers = (*answer.headers, (b"content-length", b"%d" % len(answer.body)))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope) -> HttpAnswer:
        is_events, route = events_target(scope["path"])
        named = {FIELD_NAMES[bytes(name)]: bytes(value) for name, value in scope["headers"]}
        if is_events:
            return self._resource.other_method(scope["method"], named, route)
        if (intake := intake_target(scope["path"])) is not None:
            return self._resource.other_intake_method(
                scope["method"], intake, scope["query_string"]
            )
        return await self._resource.other_path(scope["method"], scope["path"], named)
