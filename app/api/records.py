"""``/v1/topics/…/records`` and ``…/tail``: the Fetch answers of the Kafka protocol guide, by the reading
that belongs to no group: nobody's position moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated, cast

import msgspec
from fastapi import Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from app.api import answers, follow, messages, problems, start_points
from app.api.follow import Bounds, Gap, Tail
from app.api.operations import To, router
from app.api.problems import Refused
from app.api.running import Here
from app.api.shown import Shown
from app.api.topics import Broker, OnePartition, Topic, ends_of, log_of
from app.errors import BrokerError, BrokerUnavailable
from app.interfaces import Log
from app.model.metadata import PartitionMetadata

LIMIT, LIMIT_MAX = 100, 1000  # messages of one page
BYTES, BYTES_MAX = 1 << 20, 16 << 20  # of their records
SECONDS, SECONDS_MAX = 5.0, 30.0
RECONNECT_MS = 1000

From = Query(
    alias="from",
    description="earliest, latest, latest-20, a time as 2026-01-01T00:00:00Z, a position of the one "
    "partition that is read, or partition@position of several, joined by commas",
)
Follow = Annotated[bool, Query(alias="follow", description="false: end at the end")]
LastEventId = Annotated[
    str | None, Header(description="id of the last received event; the stream continues after it")
]
Raw = Annotated[bool, Query(description="also show each record as it is on the wire")]


routes = router("/v1/topics", tags=["topics"])


@routes.get(
    "/{broker}/{topic:path}/records",
    operation_id="peek",
    response_model=answers.PageView,
    responses=Refused.responses(400, 403, 404, 416, 501, 503),
)
async def peek(
    running: Here,
    shown: To,
    broker: Broker,
    topic: Topic,
    begin: Annotated[str, From] = "earliest",
    partition: OnePartition = None,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="messages")] = LIMIT,
    max_bytes: Annotated[
        int,
        Query(
            ge=1,
            le=BYTES_MAX,
            description="most bytes of records; the first record is always returned",
        ),
    ] = BYTES,
    max_wait: Annotated[float, Query(ge=1, le=SECONDS_MAX, description="seconds")] = SECONDS,
    raw: Raw = False,
) -> Response:
    """A page of a topic, partition after partition (Fetch)."""
    log = readable(log_of(running, broker), topic)
    ends = led(await ends_of(log, broker, topic, partition), topic)
    start = await start_points.resolve(log, topic, ends, begin)
    bounds = Bounds(limit, max_bytes, max_wait)
    page = await follow.peek(log, topic, ends, start, bounds)
    return Response(_page(page, running.kinds[broker], raw, shown), media_type="application/json")


@routes.get(
    "/{broker}/{topic:path}/tail",
    operation_id="tail",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {}},
            "description": "One message per server-sent event.",
        },
        **Refused.responses(400, 403, 404, 416, 501, 503),
    },
)
async def tail(
    running: Here,
    shown: To,
    stopped: Stopped,
    broker: Broker,
    topic: Topic,
    begin: Annotated[str, From] = "latest",
    partition: OnePartition = None,
    on: Follow = True,
    raw: Raw = False,
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    """New messages as server-sent events (Fetch): `data` as in records, `id` the positions of all
    partitions. An event `gap` reports records that retention removed, `problem` the end of the
    stream."""
    log = readable(log_of(running, broker), topic)
    ends = led(await ends_of(log, broker, topic, partition), topic)
    known = start_points.places_of(last_event_id) if last_event_id else None
    start = (
        await start_points.resolve(log, topic, ends, begin)
        if known is None
        else start_points.resume(ends, known)
    )
    following = Tail(log, topic, start, stopped if on else already(), partition)
    return streamed(_events(following, running.kinds[broker], raw, shown))


def readable(log: Log, topic: str) -> Log:
    """Refuses a log of which nothing can be read without being taken from it."""
    if log.capabilities.replayable:
        return log
    raise Refused(
        501,
        "not-capable",
        f"{topic} cannot be read without a subscription: reads of broker {log.name} consume"
        " messages. Its depth is under offsets; to see its events, subscribe to it (a subscription whose"
        " sink is `skybridge receive`), or keep it in a log that can be read again",
    )


def led(ends: Sequence[PartitionMetadata], topic: str) -> Sequence[PartitionMetadata]:
    """Raises BrokerUnavailable while an election is under way: nobody could say where to begin."""
    for each in ends:
        if not each.latest:
            raise BrokerUnavailable(f"partition {each.number} of {topic} has no leader now")
    return ends


async def _stopped(request: Request) -> asyncio.Event:
    return cast("asyncio.Event", request.app.state.stopped)


Stopped = Annotated[asyncio.Event, Depends(_stopped)]
"""Ends streams that would otherwise go on for ever (rule 11)."""


def already() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def _page(page: follow.Page, kind: str, raw: bool, shown: Shown) -> bytes:
    return msgspec.json.encode(
        {
            "messages": [
                msgspec.Raw(messages.to_json(each, kind, raw=raw, shown=shown))
                for each in page.messages
            ],
            "next": start_points.text_of(page.next),
            "complete": page.complete,
        }
    )


async def _events(tail: Tail, kind: str, raw: bool, shown: Shown) -> AsyncGenerator[bytes, None]:
    """The first block has no data: it tells the client that it is heard, and where "latest" was."""
    yield b"retry: %d\n%s" % (RECONNECT_MS, block(tail.at))
    try:
        async with aclosing(tail.items()) as items:
            async for item in items:
                if item is None:
                    yield b": nothing new\n\n"
                elif isinstance(item, Gap):
                    yield block(tail.at, "gap", gap_json(item))
                else:
                    data = messages.to_json(item, kind, raw=raw, shown=shown)
                    yield block(tail.at, data=data)
    except BrokerError as error:
        yield block(tail.at, "problem", msgspec.json.encode(problems.of_broker(error)))


def streamed(blocks: AsyncGenerator[bytes, None]) -> StreamingResponse:
    """Server-sent events, which nobody between is to keep."""
    return StreamingResponse(
        blocks, media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


def gap_json(gap: Gap) -> bytes:
    return msgspec.json.encode(
        {"partition": gap.partition, "from": str(gap.place), "to": gap.earliest}
    )


def block(at: str, name: str = "", data: bytes = b"") -> bytes:
    lines = [b"id: " + at.encode()]
    if name:
        lines.append(b"event: " + name.encode())
    if data:
        lines.append(b"data: " + messages.one_line(data))
    return b"\n".join(lines) + b"\n\n"
