"""``GET /v1/events``: show what happened to an event, from its producer to every subscription. Nothing is
changed.

``records`` searches the logs, and ``rows`` the store and the memory of workers. ``origins`` reads who sent the
event, ``taken`` finds its route, and ``fates`` what happened at each subscription. This module combines the
results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated

import msgspec
from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.access.operations import RedactionDep, router
from app.api.access.parts import (
    BrokersDep,
    ClockDep,
    RegistryDep,
    RoutesDep,
    StoreDep,
    SubscriptionsDep,
    uses,
)
from app.api.asked.brokers import Brokers
from app.api.explain.routes import ProducersDep
from app.api.find.answers import EventFoundView, FoundView, LookedView, PlaceView
from app.api.find.fates import StateSnapshot, fates, take_snapshot
from app.api.find.origins import origin_of
from app.api.find.records import (
    FoundRecord,
    LogSearch,
    SearchReport,
    WantedEvent,
    destination_of,
    event_in,
    incomplete,
    message_at,
    unique_records,
)  # fmt: skip
from app.api.find.rows import FoundEventRows, records_in_rows, rows_of, unread_tables
from app.api.find.taken import RouteFinder
from app.api.http.bodies import json_answer
from app.api.http.moments import now_ms
from app.api.http.parameters import Moment, Text
from app.api.http.slices import Slices
from app.api.status.asked import Spools
from app.errors import BrokerError
from app.model.message import Message, Partition
from app.model.spool import spooled_route
from app.routing.hops import all_hops
from app.routing.journey import EventExplainer, Journey
from app.telemetry.slices import in_thread

SpoolsDep = Annotated[Spools, uses(Spools)]

MOST = 100  # the most events of one answer, and the most records that are read for attempts

SILENT = 5  # partitions that cannot be read, after which no other is tried, because each may take seconds

routes = router("/v1/events", tags=["find"])


class FindQuery(BaseModel):
    """The event to find. Ids of events contain slashes, so the id is a parameter and not part of the path."""

    model_config = ConfigDict(extra="forbid")

    id: Text = Field(description="id of the event")
    source: Text | None = Field(None, description="source of the event; any source by default")
    since: Moment | None = Field(
        None,
        description="search from this time on: RFC 3339 or milliseconds since the epoch. "
        "By default, embedded logs are searched from their beginning and other brokers for the last hour",
    )


@routes.operation("GET", "find_events", (422, 503), response_model=FoundView)
async def find_events(
    brokers: BrokersDep,
    routing: RoutesDep,
    subscriptions: SubscriptionsDep,
    registry: RegistryDep,
    spools: SpoolsDep,
    producers: ProducersDep,
    store: StoreDep,
    clock: ClockDep,
    shown: RedactionDep,
    query: Annotated[FindQuery, Query()],
) -> Response:
    """Return the producer of an event, the route that it took, its place in each log, and what happened at
    each subscription. `looked` lists the places that were searched."""
    wanted, moment = WantedEvent(query.id, query.source, query.since), now_ms(clock)
    slices = Slices()
    rows, looked = await rows_of(store, subscriptions, wanted, moment, slices)
    searched = await LogSearch(brokers, subscriptions, routing, wanted, moment).run()
    now = await take_snapshot(
        subscriptions, registry, spools, store, shown, moment, unread_tables(looked)
    )
    found = [*searched.sightings, *await records_in_rows(brokers.kinds, rows, wanted, slices)]
    named, silent = await _records_of_attempts(brokers, now, rows, found, wanted)
    every = unique_records([*found, *named])
    sightings = [each for each in every if each.message.time_ms >= (wanted.since_ms or 0)]
    before = {*map(_source_of, every)} - {*map(_source_of, sightings)}
    tried = [each.event.source for each in rows.attempts if each.event.source not in before]
    by_source: dict[str, list[FoundRecord]] = {source: [] for source in map(_source_of, sightings)}
    for each in sightings:
        by_source[_source_of(each)].append(each)
    sources = sorted(
        dict.fromkeys([*by_source, *tried]), key=lambda each: -_arrival_ms(by_source.get(each, ()))
    )
    given = (
        routing.routes, now.subscriptions, routing.resources, brokers.kinds, brokers.manners,
    )  # fmt: skip
    guide = await in_thread(partial(EventExplainer, *given))
    ways = RouteFinder(guide, [each.name for each in routing.routes], producers, slices, shown)
    of_source = await rows.by_source(slices)
    events = [
        await _event_view(
            brokers,
            now,
            ways,
            wanted,
            source,
            by_source.get(source, ()),
            of_source.get(source, FoundEventRows()),
        )
        for source in sources[:MOST]
    ]
    return json_answer(
        {
            "looked": [
                _search_view(each) for each in (*looked, *searched.looked, *silent, *ways.looked)
            ],
            "events": await slices.rows(events, lambda each: each),
        }
    )


def _search_view(each: SearchReport) -> dict[str, object]:
    """Return the answer for one searched place."""
    members = {**msgspec.structs.asdict(each), "from": each.start_ms, "to": each.until_ms}
    return LookedView.model_validate(members).model_dump(mode="json", by_alias=True)


def _arrival_ms(sightings: Sequence[FoundRecord]) -> int:
    """Return the time of the oldest of these records in ms since the epoch, or 0 without records."""
    return min((each.message.time_ms for each in sightings), default=0)


def _source_of(sighting: FoundRecord) -> str:
    return sighting.decoded.event.attributes["source"]


async def _records_of_attempts(
    brokers: Brokers,
    now: StateSnapshot,
    rows: FoundEventRows,
    found: Sequence[FoundRecord],
    wanted: WantedEvent,
) -> tuple[list[FoundRecord], list[SearchReport]]:
    """Return records of the event that no log search found but that attempts name, and a report for each
    partition that could not be read. Each attempt names the place of its record in a log."""
    known = {(each.broker, each.message.partition, each.message.position) for each in found}
    read_from = {each.id: each.source.broker for each in now.subscriptions}
    places = dict.fromkeys(
        (read_from[each.subscription], each.partition, each.position)
        for each in rows.attempts
        if each.subscription in read_from
    )
    unknown = (each for each in places if each not in known)
    more: list[FoundRecord] = []
    silent: dict[tuple[str, Partition], SearchReport] = {}
    for broker, partition, position in islice(unknown, MOST):
        log = brokers.logs.get(broker)
        if log is None or not log.capabilities.replayable or (broker, partition) in silent:
            continue
        if len(silent) == SILENT:
            break
        try:
            message = await message_at(log, partition, position)
        except BrokerError as error:
            where = f"{broker}/{partition}"
            silent[broker, partition] = incomplete(where, wanted.since_ms, str(error))
            continue
        decoded = None if message is None else event_in(brokers.kinds, broker, message)
        if message is not None and decoded is not None and wanted.matches(decoded):
            more.append(FoundRecord(broker, message, decoded))
    return more, list(silent.values())


async def _event_view(
    brokers: Brokers,
    now: StateSnapshot,
    ways: RouteFinder,
    wanted: WantedEvent,
    source: str,
    sightings: Sequence[FoundRecord],
    mine: FoundEventRows,
) -> EventFoundView:
    """Return the answer for one event."""
    attributes: Mapping[str, str] = {}
    journey, route = None, None
    if sightings:
        attributes = sightings[0].decoded.event.attributes
        journey, route = await ways.find(sightings)
    origin = origin_of(brokers.attested, sightings)
    return EventFoundView(
        id=wanted.id,
        source=source,
        type=attributes.get("type") or next((each.event.type for each in mine.attempts), ""),
        subject=attributes.get("subject"),
        time=attributes.get("time"),
        received_ms=min((each.message.time_ms for each in sightings), default=None),
        producer=origin.producer,
        intake=origin.intake,
        producer_claimed=origin.claimed,
        route=route,
        places=list(_places(brokers.kinds, now, sightings, journey)),
        subscriptions=await fates(now, mine, sightings, ways.slices),
    )


def _places(
    kinds: Mapping[str, str],
    now: StateSnapshot,
    sightings: Sequence[FoundRecord],
    journey: Journey | None,
) -> Iterator[PlaceView]:
    """Yield the answer for each record."""
    by = (
        {}
        if journey is None
        else {(hop.broker, hop.topic): hop.by for hop in all_hops(journey.hops)}
    )
    for broker, message, _ in sightings:
        place = message.partition
        in_spool = spooled_route(place.topic) is not None
        yield PlaceView(
            broker=broker,
            kind="spool" if in_spool else kinds.get(broker, ""),
            topic=place.topic,
            partition=place.number,
            offset=int(message.position) if message.position.isdecimal() else None,
            position=message.position,
            time_ms=message.time_ms,
            by=by.get(destination_of(broker, message)[:2], ""),
            waits=_waits_in_spool(now, broker, message) if in_spool else None,
        )


def _waits_in_spool(now: StateSnapshot, broker: str, message: Message) -> bool | None:
    """Return True if a record in a spool still waits to be published. Return None if that is unknown."""
    place = message.partition
    drained = now.drained.get((broker, place.topic), ())
    if place.number >= len(drained) or not message.position.isdecimal():
        return None
    return int(message.position) >= drained[place.number]
