"""``GET /v1/subscriptions/{id}/events``: the events that a subscription wants, as server-sent events.

The topics are read without a group, so no position is committed and no event is finished. The stream is for
observation, for browsers, and for consumers that store their own position. The ``id`` of each server-sent
event is this position. It covers all partitions of all topics, including filtered events.
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
from app.api.http.problems import RequestRefused
from app.api.http.slices import ROW, Slices
from app.api.http.start_points import StartPoints
from app.api.subscriptions.routes import subscription_of
from app.api.topics import messages
from app.api.topics.follow import HEARTBEAT_EVERY, Item, TopicTail, follow
from app.api.topics.messages import EventReader, json_of
from app.api.topics.records import (
    RECONNECT_MS,
    Follow,
    LastEventId,
    Stopped,
    block,
    demand_leaders,
    gap_json,
    set_event,
    stream_response,
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
        Literal["earliest", "latest"], Query(description="start of a stream without Last-Event-ID")
    ] = "latest",
    explain: Annotated[
        bool,
        Query(description="true to send every record, wanted or not, as an event `verdict`"),
    ] = False,
    on: Follow = True,
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    """Stream new events that pass the subscription's filters. `data` is the CloudEvent in the JSON event
    format.

    A server-sent event `record` contains a record that is not a CloudEvent or cannot be shown as JSON. An
    event `gap` reports records that retention deleted. An event `problem` ends the stream.

    With `explain`, every record is sent as an event `verdict` with the result of each filter. Its `data` is
    an object with topic, partition, position, event (id, source, type), verdict (wanted, filtered,
    filter_error, skipped or no-event), lane, fault and filters.
    """
    subscription = await subscription_of(subscriptions, name)
    log = _readable(brokers, subscription)
    end = stopped if on else set_event()
    tails = await _tails(log, subscription, start, last_event_id, end)
    kind = VerdictStream if explain else EventStream
    filters = await in_thread(partial(_compiled, subscription.filters))
    return stream_response(kind(brokers, subscription, tails, filters).lines(follow(tails, end)))


def _readable(brokers: Brokers, subscription: Subscription) -> Log:
    """Return the log of the subscription. Raise Refused with 409 if reading it would consume messages."""
    log = brokers.logs[subscription.source.broker]
    if log.capabilities.replayable:
        return log
    raise RequestRefused(
        409,
        "not-capable",
        f"broker {log.name} cannot be read without consuming messages. Give the subscription sink: {{pull: {{}}}}"
        " and :receive its events, or store them in a log that can be read again",
    )


async def _tails(
    log: Log,
    subscription: Subscription,
    start: str,
    last_event_id: str | None,
    stopped: asyncio.Event,
) -> list[TopicTail]:
    """Return a tail of each topic of the subscription, starting at Last-Event-ID or else at ``start``."""
    known = resume_points(last_event_id) if last_event_id else None
    tails = []
    for topic in subscription.source.topics:
        ends = demand_leaders(await ends_of(log, subscription.source.broker, topic), topic)
        if known is None:
            begin = await start_points.resolve(log, topic, ends, start)
        else:
            begin = start_points.resume(ends, known.get(topic, {}))
        tails.append(TopicTail(log, topic, begin, stopped))
    return tails


def resume_point(tails: Sequence[TopicTail]) -> str:
    """Return the positions in all partitions of all topics as one opaque text."""
    return ";".join(f"{quote(each.topic, safe='')}={each.at}" for each in tails)


def resume_points(text: str) -> dict[str, StartPoints]:
    """Parse the text of ``resume_point``, by topic. Raise Refused for other text, because starting elsewhere
    would skip events."""
    found: dict[str, StartPoints] = {}
    for each in text.split(";"):
        topic, equals, at = each.partition("=")
        known = start_points.places_of(at) if at else {}
        if not equals or known is None:
            raise RequestRefused(400, "bad-position", "Last-Event-ID is not an id of this stream")
        found[unquote(topic)] = known
    return found


class _Filters(NamedTuple):
    """The filters of a subscription, compiled to select events and to explain the selection."""

    selection: Selection
    explain: Explainer


def _compiled(filters: Sequence[Filter]) -> _Filters:
    """Compile the filters of a subscription."""
    explain = Explainer(filters)
    explain.compile()
    return _Filters(Selection(filters), explain)


class EventStream:
    """A stream of the events of one subscription. It reads messages only as fast as the client receives them,
    so it holds at most one message in memory."""

    def __init__(
        self,
        brokers: Brokers,
        subscription: Subscription,
        tails: Sequence[TopicTail],
        filters: _Filters,
    ) -> None:
        self._subscription = subscription
        self._reading = EventReader(brokers, subscription)
        self._selection, self._explain = filters
        self._skips = subscription.on_foreign == "skip"
        self._kind = brokers.kinds[subscription.source.broker]
        self._tails = tails
        self._last_sent = time.monotonic()
        self._slices = Slices()
        self._units = self._explain.units

    async def lines(self, items: AsyncGenerator[Item, None]) -> AsyncGenerator[bytes, None]:
        """Yield the server-sent events of the stream. The first has no data. It shows the client that the
        stream is open, and at which position it begins."""
        yield b"retry: %d\n%s" % (RECONNECT_MS, self._block())
        try:
            async with aclosing(items):
                async for item in items:
                    block = await self._block_of(item)
                    await self._slices.spend(ROW + self._units + (len(block) >> 10))
                    if block:
                        yield block
                        self._last_sent = time.monotonic()
        except BrokerError as error:
            yield self._block("problem", msgspec.json.encode(problems.of_broker(error)))

    async def _block_of(self, item: Item) -> bytes:
        """Return the server-sent event for a message, a gap or a pause. It may be empty."""
        if isinstance(item, Message):
            return await self._event(item) or self._heartbeat()
        if item is None:
            return b": nothing new\n" + self._block()
        return self._block("gap", gap_json(item))

    async def _event(self, message: Message) -> bytes:
        """Return the server-sent event for a message. It is empty if the subscription does not want the
        message."""
        decoded = self._reading.read(message)
        if self._skips if decoded is None else not self._selection.holds(decoded.event):
            return b""
        document = json_of(decoded)
        if document is None:
            return self._block("record", messages.to_json(message, self._kind))
        return self._block(data=document)

    def _heartbeat(self) -> bytes:
        """Return a server-sent event without data that reports the position, or nothing if an event was sent
        recently. Many messages may arrive without one that the subscription wants."""
        if time.monotonic() - self._last_sent < HEARTBEAT_EVERY:
            return b""
        return b": nothing wanted\n" + self._block()

    def _block(self, name: str = "", data: bytes = b"") -> bytes:
        return block(resume_point(self._tails), name, data)


class VerdictStream(EventStream):
    """A stream of every record of a subscription's topics, with the result of each of its current filters."""

    async def _event(self, message: Message) -> bytes:
        place = {
            "topic": message.partition.topic,
            "partition": message.partition.number,
            "position": message.position,
        }
        decoded = self._reading.read(message)
        if decoded is None:
            verdict = self._foreign_verdict()
        else:
            verdict = await self._verdict_of(decoded, message.record.key)
        return self._block("verdict", msgspec.json.encode({**place, **verdict}))

    def _foreign_verdict(self) -> dict[str, object]:
        """Return the verdict about a record that is not a CloudEvent."""
        verdict = "skipped" if self._skips else "no-event"
        fault = f"the record is not a CloudEvent (on_foreign: {self._subscription.on_foreign})"
        return {"event": None, "verdict": verdict, "lane": None, "fault": fault, "filters": []}

    async def _verdict_of(self, decoded: Decoded, key: bytes | None) -> dict[str, object]:
        """Return the verdict about an event, with the result of each filter."""
        event = decoded.event
        filters = await self._slices.run(self._explain.steps(event))
        attributes = event.attributes
        return {
            "event": {name: attributes.get(name) for name in ("id", "source", "type")},
            "verdict": self._verdict_word(event),
            "lane": lane_words(self._subscription, event, key),
            "fault": None,
            "filters": filters,
        }

    def _verdict_word(self, event: CloudEvent) -> str:
        """Return the verdict about an event in the words of the worker's counters. A failed filter expression
        counts only if the event is not wanted."""
        if self._selection.holds(event):
            return "wanted"
        return FILTER_ERROR if self._selection.failed else FILTERED
