"""``/v1/topics``: the Metadata and Offset answers of the Kafka protocol guide, peek and tail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import StreamingResponse

from app.api import answers, follow, messages, views
from app.api.problems import Refused
from app.api.running import Running
from app.errors import BrokerError, PositionOutOfRange
from app.interfaces import Log

Broker = Annotated[str, Path(description="its name in the configuration")]
Topic = Annotated[str, Path()]
LIMIT = 100  # messages of one peek
LIMIT_MAX = 1000


def router(running: Running, stopped: asyncio.Event) -> APIRouter:
    routes = APIRouter(prefix="/v1/topics", tags=["topics"])
    _add_metadata(routes, running)
    _add_peek(routes, running)
    _add_tail(routes, running, stopped)
    return routes


def _add_metadata(routes: APIRouter, running: Running) -> None:
    @routes.get("", operation_id="topics")
    async def topics() -> list[answers.TopicView]:
        """Every topic of every broker that can be asked now."""
        found: list[answers.TopicView] = []
        for name, log in running.logs.items():
            if (await log.health()).healthy:
                metadata = await log.metadata()
                found += [views.topic(name, each) for each in metadata.topics]
        return found

    @routes.get("/{broker}/{topic}", operation_id="topic", responses=Refused.responses(404, 503))
    async def topic(broker: Broker, topic: Topic) -> answers.TopicView:
        """One topic's partitions: leader, replicas, earliest and latest position."""
        metadata = await _log(running, broker).metadata([topic])
        for each in metadata.topics:
            if each.name == topic and each.partitions:
                return views.topic(broker, each)
        raise unknown_topic(broker, topic)


def _add_peek(routes: APIRouter, running: Running) -> None:
    @routes.get(
        "/{broker}/{topic}/peek",
        operation_id="peek",
        response_model=list[answers.MessageView],
        responses=Refused.responses(404, 416, 503),
    )
    async def peek(
        broker: Broker,
        topic: Topic,
        partition: Annotated[int | None, Query(description="all by default")] = None,
        start: Annotated[str | None, Query(alias="from", description="a position")] = None,
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT,
    ) -> Response:
        """Messages as they lie in the log. No group is touched."""
        log = await _known(running, broker, topic)
        try:
            found = await follow.peek(log, topic, partition=partition, start=start, limit=limit)
        except PositionOutOfRange as error:
            raise Refused(416, "position-out-of-range", str(error)) from error
        body = b"[" + b",".join(map(messages.to_json, found)) + b"]"
        return Response(body, media_type="application/json")


def _add_tail(routes: APIRouter, running: Running, stopped: asyncio.Event) -> None:
    @routes.get(
        "/{broker}/{topic}/tail",
        operation_id="tail",
        response_class=StreamingResponse,
        responses={
            200: {"content": {"text/event-stream": {}}, "description": "One message an event."},
            **Refused.responses(404, 503),
        },
    )
    async def tail(
        broker: Broker,
        topic: Topic,
        begin: Annotated[follow.From, Query(alias="from")] = "latest",
        on: Annotated[bool, Query(alias="follow", description="false: end at the end")] = True,
    ) -> StreamingResponse:
        """Messages as they come, as server-sent events: `id` is partition and position, `data` as in
        peek. No group is touched."""
        log = await _known(running, broker, topic)
        stream = _events(log, topic, begin, stopped if on else _already())
        return StreamingResponse(stream, media_type="text/event-stream")


def unknown_topic(broker: str, topic: str) -> Refused:
    return Refused(404, "unknown-topic", f"broker {broker} has no topic {topic}")


def _already() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


async def _known(running: Running, broker: str, topic: str) -> Log:
    """The log that holds the topic."""
    log = _log(running, broker)
    try:
        known = await follow.partitions_of(log, topic)
    except BrokerError as error:
        raise Refused(503, error.code, str(error)) from error
    if not known:
        raise unknown_topic(broker, topic)
    return log


def _log(running: Running, broker: str) -> Log:
    try:
        return running.logs[broker]
    except KeyError:
        known = ", ".join(running.logs)
        raise Refused(404, "unknown-broker", f"no broker {broker}; there are: {known}") from None


async def _events(
    log: Log, topic: str, begin: follow.From, stopped: asyncio.Event
) -> AsyncIterator[bytes]:
    yield b": following\n\n"  # tells the client at once that it is heard
    async for message in follow.follow(log, topic, begin, stopped):
        if message is None:
            yield b": nothing new\n\n"
            continue
        place = f"{message.partition.number}:{message.position}"
        yield b"id: %s\ndata: %s\n\n" % (place.encode(), messages.to_json(message))
