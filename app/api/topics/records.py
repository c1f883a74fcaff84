"""``/v1/topics/…/records`` and ``…/tail``: the Fetch answers of the Kafka protocol guide, by the reading
that belongs to no group: nobody's position moves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated, cast

import msgspec
from fastapi import Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from app.api.access.operations import To, router, stream_answer
from app.api.access.parts import BrokersDep
from app.api.access.redaction import Shown
from app.api.http import problems, start_points
from app.api.http.bodies import json_answer
from app.api.http.parameters import Text
from app.api.http.problems import Refused
from app.api.http.slices import ROW, Slices
from app.api.topics import follow, messages
from app.api.topics.answers import PageView
from app.api.topics.follow import HEARTBEAT_EVERY, Bounds, Gap, Tail, Wanted, everything
from app.api.topics.routes import Broker, OnePartition, Topic, ends_of, log_of
from app.bindings.table import BINDINGS
from app.brokers.portable import size_of
from app.errors import BrokerError, BrokerUnavailable, SenderError
from app.interfaces import Log
from app.model.message import Message
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
OfId = Annotated[Text | None, Query(alias="id", description="only events with this id")]
OfSource = Annotated[
    Text | None, Query(description="only events from this source; /shop/* for a prefix")
]
OfType = Annotated[
    Text | None, Query(alias="type", description="only events of this type; orders.* for a prefix")
]
OfSubject = Annotated[
    Text | None, Query(description="only events about this subject; order-7* for a prefix")
]
Raw = Annotated[bool, Query(description="also show each record as it is on the wire")]


routes = router("/v1/topics", tags=["topics"])


@routes.operation(
    "GET /{broker}/{topic:path}/records",
    "peek",
    (400, 403, 404, 416, 501, 503),
    response_model=PageView,
)
async def peek(
    brokers: BrokersDep,
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
    max_wait: Annotated[
        float, Query(ge=1, le=SECONDS_MAX, description="seconds; next says how far they reached")
    ] = SECONDS,
    raw: Raw = False,
    id_: OfId = None,
    source: OfSource = None,
    type_: OfType = None,
    subject: OfSubject = None,
) -> Response:
    """A page of a topic, partition after partition (Fetch). Records without the wanted attributes are
    passed over."""
    log = readable(log_of(brokers, broker), topic)
    ends = led(await ends_of(log, broker, topic, partition), topic)
    start = await start_points.resolve(log, topic, ends, begin)
    bounds = Bounds(limit, max_bytes, max_wait)
    kind = brokers.kinds[broker]
    wanted = wanted_by(kind, id=id_, source=source, type=type_, subject=subject)
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
    shown: To,
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
    """New messages as server-sent events (Fetch): `data` and filters as in records, `id` the positions of
    all partitions. An event `gap` reports records that retention removed, `problem` the end of the
    stream."""
    log = readable(log_of(brokers, broker), topic)
    ends = led(await ends_of(log, broker, topic, partition), topic)
    known = start_points.places_of(last_event_id) if last_event_id else None
    if last_event_id and known is None:  # to go on elsewhere would leave something out
        raise Refused(400, "bad-position", "Last-Event-ID is not an id of this stream")
    start = (
        await start_points.resolve(log, topic, ends, begin)
        if known is None
        else start_points.resume(ends, known)
    )
    following = Tail(log, topic, start, stopped if on else already(), partition)
    kind = brokers.kinds[broker]
    wanted = wanted_by(kind, id=id_, source=source, type=type_, subject=subject)
    return streamed(_events(following, kind, raw, shown, wanted))


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


async def _page(page: follow.Page, kind: str, raw: bool, shown: Shown) -> Response:
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


def wanted_by(kind: str, **attributes: str | None) -> Wanted:
    """Of the messages of a broker of this ``kind``: events whose attributes have these values; ``*`` at the
    end of one stands for any rest."""
    wanted = {name: value for name, value in attributes.items() if value is not None}
    if not wanted:
        return everything
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
    tail: Tail, kind: str, raw: bool, shown: Shown, wanted: Wanted
) -> AsyncGenerator[bytes, None]:
    """The first block has no data: it tells the client that it is heard, and where "latest" was. Among much
    that is not wanted, a block without data tells the place now and then."""
    yield b"retry: %d\n%s" % (RECONNECT_MS, block(tail.at))
    spoke, slices = time.monotonic(), Slices()
    try:
        async with aclosing(tail.items()) as items:
            async for item in items:
                if isinstance(item, Message):
                    await slices.spend(ROW + (size_of(item.record) >> 10))
                passed_over = isinstance(item, Message) and not wanted(item)
                if passed_over and time.monotonic() - spoke < HEARTBEAT_EVERY:
                    continue
                spoke = time.monotonic()
                if item is None or passed_over:
                    yield b": nothing new\n" + block(tail.at)
                elif isinstance(item, Gap):
                    yield block(tail.at, "gap", gap_json(item))
                else:
                    data = messages.to_json(item, kind, raw=raw, shown=shown)
                    yield block(tail.at, data=data)
    except BrokerError as error:
        yield block(tail.at, "problem", msgspec.json.encode(problems.of_broker(error)))


def streamed(blocks: AsyncGenerator[bytes, None]) -> StreamingResponse:
    """Return an answer of server-sent events."""
    return StreamingResponse(blocks, media_type="text/event-stream")


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
