"""``POST /v1/explain``: what would happen to an event, and why. Nothing is sent or stored."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

import msgspec
from fastapi import Header, Query, Request, Response

from app.access.rights import Rights
from app.api.access.operations import router
from app.api.access.parts import BrokersDep, RoutesDep, SubscriptionsDep, uses
from app.api.asked.routes import KnownProducers
from app.api.explain.journeys import JourneyView, Partitions, steps_as, to_json
from app.api.http import bodies
from app.api.http.bodies import json_answer
from app.api.http.problems import RequestRefused
from app.api.http.slices import Slices
from app.bindings import http
from app.errors import BrokerError
from app.interfaces import Log
from app.outlets.preview import compile_preview
from app.routing.hops import all_hops
from app.routing.journey import EventExplainer, Journey
from app.telemetry.slices import in_thread

ProducersDep = Annotated[KnownProducers, uses(KnownProducers)]

LARGEST = 16 << 20  # the most bytes of a body
MOST = 1_000  # the most events of one request
UNITS = 20_000  # filters that one request may evaluate: events x (routes + subscriptions)
WITHIN = 2.0  # seconds in which a broker must return the partitions of topics
_BODY = bodies.event_body("One CloudEvent or a batch, in any mode, as for `/events`.")


routes = router("/v1/explain", tags=["explain"])


@routes.operation(
    "POST",
    "explain",
    (400, 404, 413, 415, 422),
    response_model=list[JourneyView],
    openapi_extra=_BODY,
)
async def explain(
    brokers: BrokersDep,
    routing: RoutesDep,
    subscriptions: SubscriptionsDep,
    producers: ProducersDep,
    request: Request,
    route: Annotated[
        str | None, Query(description="route that the request names, as in `/events/{route}`")
    ] = None,
    as_from: Annotated[
        str | None,
        Query(
            description="BROKER/TOPIC to which another client writes the event, so that no route applies"
        ),
    ] = None,
    producer: Annotated[
        str | None,
        Query(
            description="name of the producer that sends the event; without it, rights are ignored"
        ),
    ] = None,
    key: Annotated[
        str | None, Header(alias="Skybridge-Key", description="key that the request sets")
    ] = None,
) -> Response:
    """Return the routes, key, topics and subscriptions of each event, with reasons. Nothing is sent."""
    decoded = http.decode(request.headers.raw, await _body(request), max_batch=MOST)
    declared = await subscriptions.declared()
    given = routing.routes, declared, routing.resources, brokers.kinds, brokers.manners
    guide = await in_thread(lambda: EventExplainer(*given, preview=compile_preview(declared)))
    _demand_few_events(len(decoded), guide.units)
    key_bytes = None if key is None else key.encode("latin-1")
    rights = None if producer is None else _rights(producers, producer)
    slices, journeys = Slices(), []
    for each in decoded:
        steps = steps_as(guide, each, key_bytes, route, rights, as_from)
        journeys.append(await slices.run(steps))
    partitions = await ask_partitions(brokers.logs, journeys)
    states = {each.id: each for each in await subscriptions.statuses()}
    content = []
    unnamed = producers.required and producer is None and as_from is None
    for journey in journeys:
        found = to_json(journey, brokers.kinds, partitions, states, needs_producer=unnamed)
        content.append(msgspec.Raw(msgspec.json.encode(found)))
        await slices.spend(guide.units)
    return json_answer(content)


def _demand_few_events(events: int, units: int) -> None:
    """Raise Refused with 413 if the request would evaluate too many filters. A request with one event is
    always permitted."""
    if events > 1 and events * units > UNITS:
        raise RequestRefused(
            413,
            "too-large",
            f"{events} events would evaluate up to {events * units} filters of routes and subscriptions, but one"
            f" request may evaluate {UNITS}. Cure: send {max(1, UNITS // units)} events at a time.",
        )


def _rights(producers: KnownProducers, producer: str) -> Rights:
    """Return the rights of a producer. Raise Refused with 404 if the name is unknown."""
    caller = producers.callers.get(producer)
    if caller is None:
        raise RequestRefused(404, "unknown-producer", f"producer {producer[:127]!r} does not exist")
    return caller.rights


async def _body(request: Request) -> bytes:
    bodies.demand_identity(request)
    return await bodies.read_body(request, LARGEST)


async def ask_partitions(logs: Mapping[str, Log], journeys: Collection[Journey]) -> Partitions:
    """Return the number of partitions of all topics of the journeys. Topics of a broker that does not answer
    are missing."""
    wanted: dict[str, set[str]] = {}
    for hop in (
        each for journey in journeys for each in all_hops((*journey.hops, *journey.outside))
    ):
        wanted.setdefault(hop.broker, set()).add(hop.topic)
    asked = await asyncio.gather(
        *(_partition_counts(logs[broker], sorted(topics)) for broker, topics in wanted.items())
    )
    return {
        (broker, topic): count
        for broker, counts in zip(wanted, asked, strict=True)
        for topic, count in counts.items()
    }


async def _partition_counts(log: Log, topics: Sequence[str]) -> Mapping[str, int]:
    try:
        async with asyncio.timeout(WITHIN):
            metadata = await log.metadata(topics)
    except (BrokerError, TimeoutError):
        return {}
    return {each.name: len(each.partitions) for each in metadata.topics if each.partitions}
