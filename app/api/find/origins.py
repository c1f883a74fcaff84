"""Read from the records of an event how it came: its producer, its intake, and the route that was named.

Skybridge writes these facts into headers next to the event. In some logs a client can write them too, so that
they are only claims.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from app.api.find.records import FoundRecord
from app.bindings.forwarding import INTAKE, PRODUCER, ROUTE
from app.bindings.record import Decoded
from app.model.spool import spooled_route
from app.sinks.dead_letters import HEADER_PREFIX
from app.sinks.replies import HOPS


class EventOrigin(NamedTuple):
    """The producer or intake of an event, as far as its records have them.

    ``claimed`` is True if a record merely claims the name.
    """

    producer: str | None = None
    intake: str | None = None
    claimed: bool = False


class NamedRoute(NamedTuple):
    """The route that a record names, and in a clause who named it. ``route`` is None if the filters decided."""

    route: str | None
    by: str


def origin_of(attested: Collection[str], sightings: Sequence[FoundRecord]) -> EventOrigin:
    """Return the origin of an event. A record that proves it takes precedence.

    ``attested`` has the brokers whose records prove their origin.
    """
    found = [
        EventOrigin(producer, intake, not _proves_origin(attested, each))
        for each in sightings
        for producer in [header_of(each.decoded, PRODUCER)]
        for intake in [header_of(each.decoded, INTAKE)]
        if producer or intake
    ]
    return min(found, key=lambda each: each.claimed, default=EventOrigin())


def named_route_of(decoded: Decoded) -> NamedRoute:
    """Return the route that the request of an event named, directly or by its intake or subscription."""
    route, intake = header_of(decoded, ROUTE), header_of(decoded, INTAKE)
    if intake is not None:
        return NamedRoute(route, f"intake {intake} named the route")
    if header_of(decoded, HOPS) is not None:
        return NamedRoute(route, "a subscription named the route of its replies")
    return NamedRoute(route, "the request named the route")


def header_of(decoded: Decoded, wanted: str) -> str | None:
    """Return the text of a header next to the event, or None. ``wanted`` is in lower case."""
    for name, value in decoded.foreign:
        if name.lower() == wanted and value:
            return value.decode("utf-8", "replace")
    return None


def _proves_origin(attested: Collection[str], sighting: FoundRecord) -> bool:
    """Return True if only Skybridge can have written how the event came. The copy of a dead letter proves
    nothing, because its headers were copied from the source."""
    if any(name.startswith(HEADER_PREFIX) for name, _ in sighting.decoded.foreign):
        return False
    # Clients cannot write into a spool.
    in_spool = spooled_route(sighting.message.partition.topic) is not None
    return in_spool or sighting.broker in attested
