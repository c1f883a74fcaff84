"""``GET /v1/events``: show what happened to an event, from its producer to every subscription. Nothing is
changed.

``records`` searches the logs, and ``rows`` the store and the memory of workers. ``fates`` finds out what
happened at each subscription. This module combines the results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
from app.api.access.redaction import Redaction
from app.api.asked.brokers import Brokers
from app.api.explain.journeys import FilterView
from app.api.explain.routes import UNITS
from app.api.find.answers import EventFoundView, FoundView, LookedView, PlaceView, RouteTakenView
from app.api.find.fates import StateSnapshot, fates, take_snapshot
from app.api.find.records import (
    FoundRecord,
    LogSearch,
    SearchReport,
    WantedEvent,
    destination_of,
    event_in,
    message_at,
    unique_records,
)  # fmt: skip
from app.api.find.rows import FoundEventRows, records_in_rows, rows_of
from app.api.http.bodies import json_answer
from app.api.http.moments import now_ms
from app.api.http.parameters import Moment, Text
from app.api.http.slices import Slices
from app.api.status.asked import Spools
from app.bindings.forwarding import PRODUCER
from app.filters.explain import FilterVerdict
from app.model.message import Message
from app.model.spool import spooled_route
from app.routing.hops import JourneyHop
from app.routing.journey import EventExplainer, Journey
from app.sinks.dead_letters import HEADER_PREFIX
from app.telemetry.slices import in_thread

SpoolsDep = Annotated[Spools, uses(Spools)]

MOST = 100  # the most events of one answer, and the most records that are read for attempts

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
    now = await take_snapshot(subscriptions, registry, spools, store, shown, moment)
    found = [*searched.sightings, *await records_in_rows(brokers.kinds, rows, wanted, slices)]
    every = unique_records([*found, *await _records_of_attempts(brokers, now, rows, found, wanted)])
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
    ways = _JourneyFinder(guide, [each.name for each in routing.routes], slices)
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
            "looked": [_search_view(each) for each in (*looked, *searched.looked, *ways.looked)],
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
) -> list[FoundRecord]:
    """Return records that only attempts name. An attempt names the place of its record in a log."""
    known = {(each.broker, each.message.partition, each.message.position) for each in found}
    read_from = {each.id: each.source.broker for each in now.subscriptions}
    places = dict.fromkeys(
        (read_from[each.subscription], each.partition, each.position)
        for each in rows.attempts
        if each.subscription in read_from
    )
    unknown = (each for each in places if each not in known)
    more: list[FoundRecord] = []
    for broker, partition, position in islice(unknown, MOST):
        log = brokers.logs.get(broker)
        if log is None or not log.capabilities.replayable:
            continue
        message = await message_at(log, partition, position)
        decoded = None if message is None else event_in(brokers.kinds, broker, message)
        if message is not None and decoded is not None and wanted.matches(decoded):
            more.append(FoundRecord(broker, message, decoded))
    return more


async def _event_view(
    brokers: Brokers,
    now: StateSnapshot,
    ways: _JourneyFinder,
    wanted: WantedEvent,
    source: str,
    sightings: Sequence[FoundRecord],
    mine: FoundEventRows,
) -> EventFoundView:
    """Return the answer for one event."""
    attributes: Mapping[str, str] = {}
    journey = None
    if sightings:
        attributes = sightings[0].decoded.event.attributes
        journey = await ways.journey(sightings)
    producer, claimed = sender_of(brokers.attested, sightings)
    return EventFoundView(
        id=wanted.id,
        source=source,
        type=attributes.get("type") or next((each.event.type for each in mine.attempts), ""),
        subject=attributes.get("subject"),
        time=attributes.get("time"),
        received_ms=min((each.message.time_ms for each in sightings), default=None),
        producer=producer,
        producer_claimed=claimed,
        route=None if journey is None else _route(journey, now.shown),
        places=list(_places(brokers.kinds, now, sightings, journey)),
        subscriptions=await fates(now, mine, sightings, ways.slices),
    )


def sender_of(
    attested: Collection[str], sightings: Sequence[FoundRecord]
) -> tuple[str | None, bool]:
    """Return the name of the producer, and whether only a record claims it. A record that proves its producer
    takes precedence.

    ``attested`` has the brokers whose records prove their producer.
    """
    claimed = None
    for each in sightings:
        for name, value in each.decoded.foreign:
            if name.lower() == PRODUCER and value:
                text = value.decode("utf-8", "replace")
                if _proves_producer(attested, each):
                    return text, False
                claimed = claimed or text
    return claimed, claimed is not None


def _proves_producer(attested: Collection[str], sighting: FoundRecord) -> bool:
    """Return True if only Skybridge can have written the producer header of the record. The copy of a dead
    letter proves nothing, because it has the header from its source."""
    if any(name.startswith(HEADER_PREFIX) for name, _ in sighting.decoded.foreign):
        return False
    spooled = (
        spooled_route(sighting.message.partition.topic) is not None
    )  # clients cannot write there
    return spooled or sighting.broker in attested


class _JourneyFinder:
    """A computation of the journey of each event, in slices, until one request has evaluated ``UNITS``
    filters."""

    def __init__(self, guide: EventExplainer, routes: Sequence[str], slices: Slices) -> None:
        self._guide = guide
        self._routes = routes
        self.slices = slices
        self._left = UNITS
        self.looked: list[SearchReport] = []

    async def journey(self, sightings: Sequence[FoundRecord]) -> Journey | None:
        """Return the journey by which the event reached its records, or None if no route explains them.

        The current rules are tried first. If they lead elsewhere, each route is tried, because the request
        may have named it.
        """
        places = {destination_of(each.broker, each.message)[:2] for each in sightings}
        first = sightings[0]
        key = first.message.record.key
        for name in [None, *self._routes]:
            if self._left <= 0:
                self._report_limit()
                return None
            self._left -= self._guide.units
            journey = await self.slices.run(self._guide.steps(first.decoded, key, name))
            if places & {(hop.broker, hop.topic) for hop in journey.hops}:
                return journey
        return None

    def _report_limit(self) -> None:
        """Report once that further routes were not evaluated."""
        if not self.looked:
            why = (
                f"one request evaluates at most {UNITS} filters. Cure: name the source of the event"
            )
            self.looked.append(
                SearchReport(
                    where="routes", start_ms=None, until_ms=None, complete=False, detail=why
                )
            )


def _route(journey: Journey, shown: Redaction) -> RouteTakenView | None:
    """Return the answer for the route that the event took, or None."""
    taken = next((each for each in journey.routes if each.chosen), None)
    if taken is None:
        return None
    why = "; ".join(each.decided_by for each in taken.filters) or "the route takes every event"
    if not taken.asked:
        why = "the request named the route, or its filters have changed since"
    return RouteTakenView(
        name=taken.name,
        computed=True,
        why=why,
        filters=[_filter_view(each, shown) for each in taken.filters],
    )


def _filter_view(verdict: FilterVerdict, shown: Redaction) -> FilterView:
    """Return the answer for a filter. Values are redacted, because they may quote event data."""
    return FilterView(
        dialect=verdict.dialect,
        passes=verdict.passes,
        decided_by=verdict.decided_by,
        because=shown.text(verdict.because),
        inner=[_filter_view(each, shown) for each in verdict.inner],
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
        else {(hop.broker, hop.topic): hop.by for hop in _all_hops(journey.hops)}
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
    """Return whether a record of a spool is still to be published, or None if that is unknown."""
    place = message.partition
    drained = now.drained.get((broker, place.topic), ())
    if place.number >= len(drained) or not message.position.isdecimal():
        return None
    return int(message.position) >= drained[place.number]


def _all_hops(hops: Sequence[JourneyHop]) -> Iterator[JourneyHop]:
    """Yield each hop, and the hops of its mirrors."""
    for hop in hops:
        yield hop
        for each in hop.subscriptions:
            if each.onward is not None:
                yield from _all_hops([each.onward])
