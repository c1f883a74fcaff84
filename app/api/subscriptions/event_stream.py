"""``GET /v1/subscriptions/{id}/events``: what a subscription wants, as server-sent events.

Its topics are read without a group, so nobody's position moves and nothing is finished by it: for
looking on, for browsers, and for consumers that keep their own place. ``id`` is that place: of all
partitions of all topics, whatever was filtered out included.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Literal, NamedTuple
from urllib.parse import quote, unquote

import msgspec
from fastapi import Path, Query
from fastapi.responses import StreamingResponse

from app.api.access.operations import router, stream_answer
from app.api.access.parts import BrokersDep, SubscriptionsDep
from app.api.asked.brokers import Brokers
from app.api.http import problems, start_points
from app.api.http.problems import Refused
from app.api.http.slices import ROW, Slices
from app.api.http.start_points import StartPoints
from app.api.subscriptions.routes import subscription_of
from app.api.topics import messages
from app.api.topics.follow import HEARTBEAT_EVERY, Item, Tail, follow
from app.api.topics.messages import Reading, json_of
from app.api.topics.records import (
    RECONNECT_MS,
    Follow,
    LastEventId,
    Stopped,
    already,
    block,
    gap_json,
    led,
    streamed,
)
from app.api.topics.routes import ends_of
from app.bindings.record import Decoded
from app.errors import BrokerError
from app.event.value import CloudEvent
from app.filters.explain import Explainer
from app.filters.model import Filter
from app.filters.selection import Selection
from app.interfaces import Log
from app.model.message import Message
from app.model.subscription import Subscription
from app.routing.order import lane_words
from app.telemetry.slices import in_thread

FILTERED, FILTER_ERROR = "filtered", "filter_error"  # as the worker's counters name them

routes = router("/v1/subscriptions", tags=["pull"])


@routes.operation(
    "GET /{name}/events",
    "subscription_events",
    (400, 403, 404, 409, 503),
    responses=stream_answer("One CloudEvent per server-sent event."),
    response_class=StreamingResponse,
)
async def events(
    brokers: BrokersDep,
    subscriptions: SubscriptionsDep,
    stopped: Stopped,
    name: Annotated[str, Path(description="id of the subscription, with any sink")],
    start: Annotated[
        Literal["earliest", "latest"], Query(description="without Last-Event-ID")
    ] = "latest",
    explain: Annotated[
        bool,
        Query(description="every record, wanted or not, as an event `verdict`"),
    ] = False,
    on: Follow = True,
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    """New events that pass the subscription's filters: `data` is the CloudEvent in the JSON format.
    An event `record` shows a record that is no CloudEvent or cannot be shown as JSON; `gap` reports
    records that retention removed, `problem` the end of the stream. With `explain` every record comes
    as `verdict`, with what each filter says of it and why; `data` is an object of
    topic, partition, position, event (id, source, type), verdict (wanted, filtered, filter_error,
    skipped or no-event), lane, fault, filters."""
    subscription = await subscription_of(subscriptions, name)
    log = _readable(brokers, subscription)
    end = stopped if on else already()
    tails = await _tails(log, subscription, start, last_event_id, end)
    kind = VerdictStream if explain else EventStream
    filters = await in_thread(partial(_compiled, subscription.filters))
    return streamed(kind(brokers, subscription, tails, filters).lines(follow(tails, end)))


def _readable(brokers: Brokers, subscription: Subscription) -> Log:
    log = brokers.logs[subscription.source.broker]
    if log.capabilities.replayable:
        return log
    raise Refused(
        409,
        "not-capable",
        f"reads of broker {log.name} consume messages: give the subscription sink: {{pull: {{}}}}"
        " and :receive its events, or keep them in a log that can be read again",
    )


async def _tails(
    log: Log,
    subscription: Subscription,
    start: str,
    last_event_id: str | None,
    stopped: asyncio.Event,
) -> list[Tail]:
    known = resume_points(last_event_id) if last_event_id else None
    tails = []
    for topic in subscription.source.topics:
        ends = led(await ends_of(log, subscription.source.broker, topic), topic)
        if known is None:
            begin = await start_points.resolve(log, topic, ends, start)
        else:
            begin = start_points.resume(ends, known.get(topic, {}))
        tails.append(Tail(log, topic, begin, stopped))
    return tails


def resume_point(tails: Sequence[Tail]) -> str:
    """Opaque: the places of all partitions of all topics."""
    return ";".join(f"{quote(each.topic, safe='')}={each.at}" for each in tails)


def resume_points(text: str) -> dict[str, StartPoints]:
    """By topic. Raises Refused for what is none: going on elsewhere would leave something out."""
    found: dict[str, StartPoints] = {}
    for each in text.split(";"):
        topic, equals, at = each.partition("=")
        known = start_points.places_of(at) if at else {}
        if not equals or known is None:
            raise Refused(400, "bad-position", "Last-Event-ID is not an id of this stream")
        found[unquote(topic)] = known
    return found


class _Filters(NamedTuple):
    """The filters of a subscription, compiled to select events and to explain the selection."""

    selection: Selection
    explain: Explainer


def _compiled(filters: Sequence[Filter]) -> _Filters:
    explain = Explainer(filters)
    explain.compile()
    return _Filters(Selection(filters), explain)


class EventStream:
    """Written as it is read: a reader that is slow slows the reading, and no more than a message is held
    here for it."""

    def __init__(
        self,
        brokers: Brokers,
        subscription: Subscription,
        tails: Sequence[Tail],
        filters: _Filters,
    ) -> None:
        self._subscription = subscription
        self._reading = Reading(brokers, subscription)
        self._selection, self._explain = filters
        self._skips = subscription.on_foreign == "skip"
        self._kind = brokers.kinds[subscription.source.broker]
        self._tails = tails
        self._spoke = time.monotonic()
        self._slices = Slices()
        self._units = self._explain.units

    async def lines(self, items: AsyncGenerator[Item, None]) -> AsyncGenerator[bytes, None]:
        """The first block has no data: it tells the client that it is heard, and where it begins."""
        yield b"retry: %d\n%s" % (RECONNECT_MS, self._block())
        try:
            async with aclosing(items):
                async for item in items:
                    block = await self._written(item)
                    await self._slices.spend(ROW + self._units + (len(block) >> 10))
                    if block:
                        yield block
                        self._spoke = time.monotonic()
        except BrokerError as error:
            yield self._block("problem", msgspec.json.encode(problems.of_broker(error)))

    async def _written(self, item: Item) -> bytes:
        if isinstance(item, Message):
            return await self._event(item) or self._sign_of_life()
        if item is None:
            return b": nothing new\n" + self._block()
        return self._block("gap", gap_json(item))

    async def _event(self, message: Message) -> bytes:
        """Empty for what the subscription does not want."""
        decoded = self._reading.read(message)
        if self._skips if decoded is None else not self._selection.holds(decoded.event):
            return b""
        document = json_of(decoded)
        if document is None:
            return self._block("record", messages.to_json(message, self._kind))
        return self._block(data=document)

    def _sign_of_life(self) -> bytes:
        """Much may come of which nothing is wanted; its place is told now and then all the same."""
        if time.monotonic() - self._spoke < HEARTBEAT_EVERY:
            return b""
        return b": nothing wanted\n" + self._block()

    def _block(self, name: str = "", data: bytes = b"") -> bytes:
        return block(resume_point(self._tails), name, data)


class VerdictStream(EventStream):
    """Every record, wanted or not, with what each filter says of it: the filters as they are now."""

    async def _event(self, message: Message) -> bytes:
        place = {
            "topic": message.partition.topic,
            "partition": message.partition.number,
            "position": message.position,
        }
        decoded = self._reading.read(message)
        if decoded is None:
            told = self._foreign()
        else:
            told = await self._judged(decoded, message.record.key)
        return self._block("verdict", msgspec.json.encode({**place, **told}))

    def _foreign(self) -> dict[str, object]:
        verdict = "skipped" if self._skips else "no-event"
        fault = f"the record is no CloudEvent; on_foreign: {self._subscription.on_foreign}"
        return {"event": None, "verdict": verdict, "lane": None, "fault": fault, "filters": []}

    async def _judged(self, decoded: Decoded, key: bytes | None) -> dict[str, object]:
        event = decoded.event
        filters = await self._slices.run(self._explain.steps(event))
        attributes = event.attributes
        return {
            "event": {name: attributes.get(name) for name in ("id", "source", "type")},
            "verdict": self._word(event),
            "lane": lane_words(self._subscription, event, key),
            "fault": None,
            "filters": filters,
        }

    def _word(self, event: CloudEvent) -> str:
        """Return the verdict as the worker counts it: a failed expression matters where the event is not wanted."""
        if self._selection.holds(event):
            return "wanted"
        return FILTER_ERROR if self._selection.failed else FILTERED
