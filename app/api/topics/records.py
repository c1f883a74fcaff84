"""``/v1/topics/…/records`` and ``…/tail``: read records, as Kafka's Fetch does, without a group and without
commits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated, cast

import msgspec
from fastapi import Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from app.api.access.operations import RedactionDep, router, stream_answer
from app.api.access.parts import BrokersDep
from app.api.access.redaction import Redaction
from app.api.http import problems, start_points
from app.api.http.bodies import json_answer
from app.api.http.parameters import Text
from app.api.http.problems import RequestRefused
from app.api.http.slices import ROW, Slices
from app.api.topics import follow, messages
from app.api.topics.answers import PageView
from app.api.topics.follow import (
    HEARTBEAT_EVERY,
    Gap,
    MessageFilter,
    PageBounds,
    TopicTail,
    accept_every,
)
from app.api.topics.routes import Broker, OnePartition, Topic, ends_of, log_of
from app.bindings.table import BINDINGS
from app.brokers.portable import size_of
from app.errors import BrokerError, BrokerUnavailable, SenderError
from app.interfaces import Log
from app.model.message import Message
from app.model.metadata import PartitionMetadata

LIMIT, LIMIT_MAX = 100, 1000  # messages of one page
BYTES, BYTES_MAX = 1 << 20, 16 << 20  # bytes of the records of one page
SECONDS, SECONDS_MAX = 5.0, 30.0  # for one page
RECONNECT_MS = 1000  # after which a client reconnects to a lost stream

From = Query(
    alias="from",
    description="earliest, latest, latest-20, a time as 2026-01-01T00:00:00Z, a position if one partition is "
    "read, or several partition@position joined by commas",
)
Follow = Annotated[
    bool, Query(alias="follow", description="false to end at the current end of the topic")
]
LastEventId = Annotated[
    str | None, Header(description="id of the last received event; the stream continues after it")
]
OfId = Annotated[Text | None, Query(alias="id", description="only events with this id")]
OfSource = Annotated[
    Text | None, Query(description="only events with this source, or a prefix as in /shop/*")
]
OfType = Annotated[
    Text | None,
    Query(alias="type", description="only events with this type, or a prefix as in orders.*"),
]
OfSubject = Annotated[
    Text | None, Query(description="only events with this subject, or a prefix as in order-7*")
]
Raw = Annotated[bool, Query(description="true to add each record in its wire format")]


routes = router("/v1/topics", tags=["topics"])


@routes.operation(
    "GET /{broker}/{topic:path}/records",
    "peek",
    (400, 403, 404, 416, 501, 503),
    response_model=PageView,
)
async def peek(
    brokers: BrokersDep,
    shown: RedactionDep,
    broker: Broker,
    topic: Topic,
    begin: Annotated[str, From] = "earliest",
    partition: OnePartition = None,
    limit: Annotated[
        int, Query(ge=1, le=LIMIT_MAX, description="maximum number of messages")
    ] = LIMIT,
    max_bytes: Annotated[
        int,
        Query(
            ge=1,
            le=BYTES_MAX,
            description="maximum bytes of the records; the first record is always returned",
        ),
    ] = BYTES,
    max_wait: Annotated[
        float,
        Query(
            ge=1, le=SECONDS_MAX, description="maximum seconds to read; next is where reading ended"
        ),
    ] = SECONDS,
    raw: Raw = False,
    id_: OfId = None,
    source: OfSource = None,
    type_: OfType = None,
    subject: OfSubject = None,
) -> Response:
    """Return a page of a topic, partition after partition (Kafka's Fetch). Records whose attributes do not
    match are left out."""
    log = demand_readable(log_of(brokers, broker), topic)
    ends = demand_leaders(await ends_of(log, broker, topic, partition), topic)
    start = await start_points.resolve(log, topic, ends, begin)
    bounds = PageBounds(limit, max_bytes, max_wait)
    kind = brokers.kinds[broker]
    wanted = message_filter(kind, id=id_, source=source, type=type_, subject=subject)
    page = await follow.peek(log, topic, ends, start, bounds, wanted)
    return await _page(page, kind, raw, shown)


@routes.operation(
    "GET /{broker}/{topic:path}/tail",
    "tail",
    (400, 403, 404, 416, 501, 503),
    responses=stream_answer("One message per server-sent event."),
    response_class=StreamingResponse,
)
async def tail(
    brokers: BrokersDep,
    shown: RedactionDep,
    stopped: Stopped,
    broker: Broker,
    topic: Topic,
    begin: Annotated[str, From] = "latest",
    partition: OnePartition = None,
    on: Follow = True,
    raw: Raw = False,
    id_: OfId = None,
    source: OfSource = None,
    type_: OfType = None,
    subject: OfSubject = None,
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    """Stream new messages as server-sent events (Kafka's Fetch). `data` and the filters are those of
    `records`. `id` contains the positions of all partitions. An event `gap` reports records that retention
    deleted. An event `problem` ends the stream."""
    log = demand_readable(log_of(brokers, broker), topic)
    ends = demand_leaders(await ends_of(log, broker, topic, partition), topic)
    known = start_points.places_of(last_event_id) if last_event_id else None
    if last_event_id and known is None:  # starting elsewhere would skip messages
        raise RequestRefused(400, "bad-position", "Last-Event-ID is not an id of this stream")
    start = (
        await start_points.resolve(log, topic, ends, begin)
        if known is None
        else start_points.resume(ends, known)
    )
    following = TopicTail(log, topic, start, stopped if on else set_event(), partition)
    kind = brokers.kinds[broker]
    wanted = message_filter(kind, id=id_, source=source, type=type_, subject=subject)
    return stream_response(_events(following, kind, raw, shown, wanted))


def demand_readable(log: Log, topic: str) -> Log:
    """Return the log. Raise Refused with 501 if reading it would consume messages."""
    if log.capabilities.replayable:
        return log
    raise RequestRefused(
        501,
        "not-capable",
        f"topic {topic} cannot be read without a subscription, because reads of broker {log.name} consume"
        " messages. Its depth is under offsets. To see its events, subscribe to it (with `skybridge receive`"
        " as the sink), or store it in a log that can be read again",
    )


def demand_leaders(ends: Sequence[PartitionMetadata], topic: str) -> Sequence[PartitionMetadata]:
    """Return ``ends`` unchanged. Raise BrokerUnavailable if a partition has no leader, because its end is
    unknown during an election."""
    for each in ends:
        if not each.latest:
            raise BrokerUnavailable(f"partition {each.number} of {topic} has no leader now")
    return ends


async def _stopped(request: Request) -> asyncio.Event:
    return cast("asyncio.Event", request.app.state.stopped)


Stopped = Annotated[asyncio.Event, Depends(_stopped)]
"""A handler parameter: the event that ends streams when the service stops."""


def set_event() -> asyncio.Event:
    """Return an event that is already set. A reader with it stops at the current end of the topic."""
    event = asyncio.Event()
    event.set()
    return event


async def _page(page: follow.RecordPage, kind: str, raw: bool, shown: Redaction) -> Response:
    """Return the HTTP answer for a page of messages."""
    return json_answer(
        {
            "messages": await Slices().rows(
                page.messages,
                lambda each: msgspec.Raw(messages.to_json(each, kind, raw=raw, shown=shown)),
            ),
            "next": start_points.text_of(page.next),
            "complete": page.complete,
            "looked_at": page.looked_at,
        }
    )


def message_filter(kind: str, **attributes: str | None) -> MessageFilter:
    """Return a function that selects messages by attributes of their events. A value that ends in ``*`` is a
    prefix. ``kind`` is the protocol of the broker."""
    wanted = {name: value for name, value in attributes.items() if value is not None}
    if not wanted:
        return accept_every
    decode = BINDINGS[kind].decode

    def has_them(message: Message) -> bool:
        try:
            found = decode(message.record).event.attributes
        except SenderError:
            return False
        return all(_fits(found.get(name), value) for name, value in wanted.items())

    return has_them


def _fits(found: str | None, wanted: str) -> bool:
    if found is None:
        return False
    return found.startswith(wanted[:-1]) if wanted.endswith("*") else found == wanted


async def _events(
    tail: TopicTail, kind: str, raw: bool, shown: Redaction, wanted: MessageFilter
) -> AsyncGenerator[bytes, None]:
    """Yield the server-sent events of a stream of one topic. The first has no data. It shows the client that
    the stream is open, and at which position it begins. While only unwanted messages arrive, an event
    without data reports the position from time to time."""
    yield b"retry: %d\n%s" % (RECONNECT_MS, block(tail.at))
    last_sent, slices = time.monotonic(), Slices()
    try:
        async with aclosing(tail.items()) as items:
            async for item in items:
                if isinstance(item, Message):
                    await slices.spend(ROW + (size_of(item.record) >> 10))
                is_unwanted = isinstance(item, Message) and not wanted(item)
                if is_unwanted and time.monotonic() - last_sent < HEARTBEAT_EVERY:
                    continue
                last_sent = time.monotonic()
                if item is None or is_unwanted:
                    yield b": nothing new\n" + block(tail.at)
                elif isinstance(item, Gap):
                    yield block(tail.at, "gap", gap_json(item))
                else:
                    data = messages.to_json(item, kind, raw=raw, shown=shown)
                    yield block(tail.at, data=data)
    except BrokerError as error:
        yield block(tail.at, "problem", msgspec.json.encode(problems.of_broker(error)))


def stream_response(blocks: AsyncGenerator[bytes, None]) -> StreamingResponse:
    """Return an answer of server-sent events."""
    return StreamingResponse(blocks, media_type="text/event-stream")


def gap_json(gap: Gap) -> bytes:
    """Return the data of the server-sent event ``gap``."""
    return msgspec.json.encode(
        {"partition": gap.partition, "from": str(gap.place), "to": gap.earliest}
    )


def block(at: str, name: str = "", data: bytes = b"") -> bytes:
    """Return one server-sent event. ``at`` is its id."""
    lines = [b"id: " + at.encode()]
    if name:
        lines.append(b"event: " + name.encode())
    if data:
        lines.append(b"data: " + messages.one_line(data))
    return b"\n".join(lines) + b"\n\n"
