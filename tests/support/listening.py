"""A real listener of events over publishers that the test controls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from app.gateway.answers import ACCEPTED, HttpAnswer
from app.gateway.head_layout import HeadLayouts
from app.gateway.intakes import Intakes
from app.gateway.limits import ListenerLimits
from app.gateway.publish import Publisher, PublishPolicy
from app.gateway.request import EventRequest
from app.gateway.resource import Done, EventsPolicy
from app.gateway.server import EventsServer
from app.gateway.tls import Tls
from app.model.log_name import LogName
from app.model.route import Route
from app.routing.plan import Router
from app.telemetry import Counters
from waiting import until


class ImmediatePublisher:
    """A publisher that answers 202 at once and records the requests."""

    def __init__(self, answer: HttpAnswer = ACCEPTED) -> None:
        self.requests: list[EventRequest] = []
        self.answer = answer

    def takes(self, route: str | None) -> bool:
        return True

    def publish(self, request: EventRequest, done: Done) -> HttpAnswer | None:
        self.requests.append(request)
        return self.answer

    @property
    def ids(self) -> list[str]:
        return [request.named.get(b"ce-id", b"").decode() for request in self.requests]


class HeldPublisher(ImmediatePublisher):
    """A publisher whose answers wait until the test releases them, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.due: dict[str, Done] = {}
        self.most = 0

    def takes(self, route: str | None) -> bool:
        return True

    def publish(self, request: EventRequest, done: Done) -> HttpAnswer | None:
        super().publish(request, done)
        self.due[request.named.get(b"ce-id", b"").decode()] = done
        self.most = max(self.most, len(self.due))
        return None

    def release(self, *ids: object) -> None:
        """Answer these requests. The body of each answer is the event id, so that a test can
        distinguish them.
        """
        for name in map(str, ids):
            self.due.pop(name)(HttpAnswer(200, (), name.encode()))

    async def holds(self, count: int) -> None:
        await until(lambda: len(self.due) >= count)


def publishing(
    routes: Sequence[Mapping[str, Any]], log: Any, counters: Counters, **settings: Any
) -> Publisher:
    """Return a publisher whose routes all lead to one log with the name ``log``."""
    router = Router([Route.model_validate(each) for each in routes])
    others = {name: settings.pop(name) for name in tuple(settings) if name == "monotonic"}
    policy = PublishPolicy(router=router, **settings)
    return Publisher(policy, {LogName("log"): log}, counters, **others)


@asynccontextmanager
async def listening(publisher: Any, **settings: Any) -> AsyncIterator[EventsServer]:
    """Give a started server on a free port, which compiles the head of each request for the next one.

    ``settings`` are fields of ``ListenerLimits`` and ``EventsPolicy``, and otherwise arguments of the
    server.
    """
    counters = settings.pop("counters", None) or Counters()
    bounds, decided = (
        {name: settings.pop(name) for name in tuple(settings) if name in kind.__struct_fields__}
        for kind in (ListenerLimits, EventsPolicy)
    )
    decided["intakes"] = decided.get("intakes") or Intakes((), counters)
    tls: Tls | None = settings.get("tls")
    demands = tls is not None and tls.demands_client
    policy = EventsPolicy(
        **{"limits": ListenerLimits(**bounds), "demands_client": demands, **decided}
    )
    server = EventsServer(publisher, counters, policy, port=0, **settings)
    server.resource.layouts = HeadLayouts(often=1)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0)


def resource_of(server: EventsServer) -> Any:
    """Return the resource of the server, which counts the bytes of unfinished bodies and has the
    authenticator.
    """
    return server.resource


def connection_of(server: EventsServer) -> Any:
    """Return the only open connection."""
    (connection,) = server._uvicorn.server_state.connections
    return connection


def tasks_of(server: EventsServer) -> Any:
    """Return the running tasks of requests that the ASGI application serves."""
    return server._uvicorn.server_state.tasks


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Read the whole body of a request and answer with it. This is an ASGI application."""
    body, more = b"", True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        body += event["body"]
        more = event["more_body"]
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


def serve_ordinary(server: EventsServer, app: Any) -> None:
    """Make ``app`` answer the requests of new connections that are not for ``/events``."""
    server._uvicorn.config.loaded_app = app
