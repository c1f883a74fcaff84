"""Find out which route an event took, and why.

If the request named the route, the record has its name, and no filter decided. Otherwise the current rules are
applied to the event.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.api.access.redaction import Redaction
from app.api.asked.routes import KnownProducers
from app.api.explain.journeys import FilterView
from app.api.explain.routes import UNITS
from app.api.find.answers import RouteTakenView
from app.api.find.origins import NamedRoute, header_of, named_route_of
from app.api.find.records import FoundRecord, SearchReport, destination_of
from app.api.http.slices import Slices
from app.bindings.forwarding import PRODUCER
from app.bindings.record import Decoded
from app.filters.explain import FilterVerdict
from app.routing.journey import NAMED, EventExplainer, Journey, RouteVerdict

Found = tuple[Journey | None, RouteTakenView | None]
"""The journey of an event, and the answer for its route. Each is None if it is unknown."""


class RouteFinder:
    """The search for the routes of the events of one request. It works in slices, and stops after the request
    has evaluated ``UNITS`` filters.

    Attributes:
        looked: The report of the events whose routes were not searched completely.
    """

    def __init__(
        self,
        guide: EventExplainer,
        routes: Sequence[str],
        producers: KnownProducers,
        slices: Slices,
        shown: Redaction,
    ) -> None:
        self._guide = guide
        self._routes = routes
        self._producers = producers
        self.slices = slices
        self._shown = shown
        self._left = UNITS
        self.looked: list[SearchReport] = []

    async def find(self, sightings: Sequence[FoundRecord]) -> Found:
        """Return the route of an event and its journey. ``sightings`` has all records of the event, the oldest
        first."""
        decoded = sightings[0].decoded
        named = named_route_of(decoded)
        if named.route is None:
            journey = await self._journey(sightings, [None, *self._routes])
            return journey, None if journey is None else self._computed(journey, named)
        journey = await self._journey(sightings, [named.route])
        if journey is not None:
            return journey, self._computed(journey, named)
        why = f"{named.by}, so its filters were not evaluated; the present configuration leads elsewhere"
        return None, RouteTakenView(name=named.route, computed=False, why=why, filters=[])

    async def _journey(
        self, sightings: Sequence[FoundRecord], names: Sequence[str | None]
    ) -> Journey | None:
        """Return the first journey that leads to a record of the event, or None.

        A name is that of a route; None applies the current rules. If they lead elsewhere, each route is tried.
        """
        places = {destination_of(each.broker, each.message)[:2] for each in sightings}
        first = sightings[0]
        key, filtered = first.message.record.key, self._is_limited(first.decoded)
        for name in names:
            if self._left <= 0:
                self._report_limit()
                return None
            self._left -= self._guide.units
            steps = self._guide.steps(first.decoded, key, name, filtered=filtered)
            journey = await self.slices.run(steps)
            if places & {(hop.broker, hop.topic) for hop in journey.hops}:
                return journey
        return None

    def _is_limited(self, decoded: Decoded) -> bool:
        """Return True if the producer has limited rights, so that the filters of a named route count."""
        caller = self._producers.callers.get(header_of(decoded, PRODUCER) or "")
        return caller is not None and caller.rights.limited

    def _computed(self, journey: Journey, named: NamedRoute) -> RouteTakenView | None:
        """Return the answer for the route of a journey, or None if the event takes no route."""
        taken = next((each for each in journey.routes if each.chosen), None)
        if taken is None:
            return None
        return RouteTakenView(
            name=taken.name,
            computed=taken.name != named.route,
            why=_why(taken, named),
            filters=[_filter_view(each, self._shown) for each in taken.filters],
        )

    def _report_limit(self) -> None:
        """Report in the answer, once, that the limit of evaluated filters left some routes out."""
        if not self.looked:
            why = (
                f"one request evaluates at most {UNITS} filters. Cure: name the source of the event"
            )
            self.looked.append(
                SearchReport(
                    where="routes", start_ms=None, until_ms=None, complete=False, detail=why
                )
            )


def _why(taken: RouteVerdict, named: NamedRoute) -> str:
    """Return in words why the event took the route."""
    clauses = "; ".join(each.decided_by for each in taken.filters) or "the route takes every event"
    if taken.name == named.route:
        if not taken.asked:
            return f"{named.by}, so its filters were not evaluated"
        return f"{named.by}, and the producer has limited rights, so its filters count: {clauses}"
    if taken.asked:
        return clauses
    if named.route is None and taken.why == NAMED:
        return (
            "no filter of the present routes leads here: the configuration has changed since, "
            "or another client wrote the record"
        )
    return taken.why


def _filter_view(verdict: FilterVerdict, shown: Redaction) -> FilterView:
    """Return the answer for a filter. Values are redacted, because they may quote event data."""
    return FilterView(
        dialect=verdict.dialect,
        passes=verdict.passes,
        decided_by=verdict.decided_by,
        because=shown.text(verdict.because),
        inner=[_filter_view(each, shown) for each in verdict.inner],
    )
