"""Explain what would happen to an event without sending it: routes, key, topics, subscriptions and mirrors.

The decisions are made by the same compiled code as for real events (``Router``, filters, key mappers). This
module adds the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from app.bindings.record import Decoded
from app.bindings.table import BINDINGS
from app.bindings.transcode import EncodeOptions
from app.errors import Fault, SenderError
from app.event.validate import shorten
from app.event.value import CloudEvent
from app.filters.explain import Explainer, FilterVerdict
from app.model.route import Exchange, OtherRoute, Route, Target
from app.model.subscription import Subscription
from app.routing.explained import ExplainedKey, explain
from app.routing.hops import EventFollower, JourneyHop, Preview, Steps, finish, no_preview
from app.routing.places import may_be_among
from app.routing.plan import NO_KINDS, NO_RESOURCES, NoRoute, Resources, Router, UnknownRoute
from app.routing.publications import NO_PULSAR_PROFILES, PulsarProfile

NAMED = "the request names the route, so its filters are not evaluated"


class RouteVerdict(msgspec.Struct, frozen=True):
    """The verdict of one route on an event.

    Attributes:
        name: The route.
        chosen: True if the event takes this route.
        asked: True if the filters were evaluated. They are not after the first match, or if the request names
            its route.
        filters: The verdict of each filter.
        invalid: The faults of the data against the schema of the route.
        why: Why the route takes the event, if not by its filters alone. "" otherwise.
    """

    name: str
    chosen: bool
    asked: bool
    filters: tuple[FilterVerdict, ...] = ()
    invalid: tuple[Fault, ...] = ()
    why: str = ""


class UnknownSource(SenderError):
    """The error for an event whose source is no topic of a configured broker (404)."""

    def __init__(self, place: str) -> None:
        detail = f"{shorten(place)} is not BROKER/TOPIC with a configured broker"
        super().__init__(detail, status=404, code="unknown-source")


class Journey(msgspec.Struct, frozen=True, kw_only=True):
    """The explanation of an event: the routes, key, topics, subscriptions and mirrors that it would meet.

    Attributes:
        event: The event.
        routes: The verdict of each route.
        key: The record key. None if no route takes the event.
        hops: The places to which the route publishes, with everything that follows.
        outside: Topics that subscriptions read and Skybridge does not write to, as if another client wrote
            the event there.
        refused: The error that the sender would get. ``hops`` is then empty.
    """

    event: CloudEvent
    routes: tuple[RouteVerdict, ...]
    key: ExplainedKey | None = None
    hops: tuple[JourneyHop, ...] = ()
    outside: tuple[JourneyHop, ...] = ()
    refused: SenderError | None = None


class EventExplainer:
    """Explains events by the routes and subscriptions in force.

    Attributes:
        units: The most filters that one event evaluates, if each route and subscription evaluates the event once.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        subscriptions: Sequence[Subscription],
        resources: Resources = NO_RESOURCES,
        kinds: Mapping[str, str] = NO_KINDS,
        manners: Mapping[str, PulsarProfile] = NO_PULSAR_PROFILES,
        preview: Preview = no_preview,
    ) -> None:
        """Create an explainer. ``preview`` shapes requests of subscriptions; other parameters are those of
        ``Router``."""
        self._routes = {route.name: route for route in routes}
        self._subscriptions = tuple(subscriptions)
        self._mappers = resources.mappers
        self._kinds = kinds
        self._follower = EventFollower(subscriptions, kinds, manners, preview)
        self._written = tuple(_targets_of(routes, subscriptions))
        self._router = Router(routes, resources, kinds, manners)
        self._of_route = {route.name: Explainer(route.filters) for route in routes}
        self.units = sum(1 + each.units for each in self._of_route.values()) + self._follower.units

    def explain(
        self,
        decoded: Decoded,
        request_key: bytes | None,
        route: str | None = None,
        as_from: str | None = None,
        *,
        filtered: bool = False,
    ) -> Journey:
        """Return the journey of an event, without yielding between steps. See ``steps`` for the parameters."""
        return finish(self.steps(decoded, request_key, route, as_from, filtered=filtered))

    def steps(
        self,
        decoded: Decoded,
        request_key: bytes | None,
        route: str | None = None,
        as_from: str | None = None,
        *,
        filtered: bool = False,
    ) -> Steps[Journey]:
        """Explain an event in steps, so that the caller can do other work between them.

        Args:
            decoded: The event.
            request_key: The key that the request gives.
            route: The name of the route that the request gives.
            as_from: BROKER/TOPIC to which another client writes the event. No route is then asked.
            filtered: Evaluate the filters of ``route``, as for a producer with limited rights.

        Raises:
            KeyMapperFailed: An operator's own key mapper failed. Errors for the sender are in
                ``Journey.refused``.
        """
        if as_from is not None:
            return (yield from self._from_others(decoded, request_key, as_from))
        inside = yield from self._by_routes(decoded, request_key, route, filtered=filtered)
        return replace(inside, outside=(yield from self._outside(decoded, request_key)))

    def _by_routes(
        self, decoded: Decoded, request_key: bytes | None, route: str | None, *, filtered: bool
    ) -> Steps[Journey]:
        event = decoded.event
        verdicts = yield from self._verdicts(event, route, filtered=filtered)
        chosen = next((each.name for each in verdicts if each.chosen), None)
        if chosen is None:
            unknown = route is not None and route not in self._routes
            missing = UnknownRoute(route or "") if unknown else NoRoute(event, route or "")
            return Journey(event=event, routes=verdicts, refused=missing)
        chosen, verdicts = self._by_schema(event, chosen, verdicts)
        key = explain(self._routes[chosen].key, event, request_key, own=self._mappers)
        try:
            hops = yield from self._hops(decoded, request_key, chosen)
        except SenderError as error:
            return Journey(event=event, routes=verdicts, key=key, refused=error)
        return Journey(event=event, routes=verdicts, key=key, hops=hops)

    def _outside(self, decoded: Decoded, key: bytes | None) -> Steps[tuple[JourneyHop, ...]]:
        """Return the topics that subscriptions read and Skybridge does not write to, as if another client wrote
        the event.

        A topic that a template or an exchange may name counts as one that Skybridge writes to.
        """
        hops: list[JourneyHop] = []
        for broker, topic in dict.fromkeys(
            (each.source.broker, topic)
            for each in self._subscriptions
            for topic in each.source.topics
        ):
            if not may_be_among(self._written, broker, topic):
                journey = yield from self._from_others(decoded, key, f"{broker}/{topic}")
                hops += journey.hops
        return tuple(hops)

    def _from_others(self, decoded: Decoded, key: bytes | None, place: str) -> Steps[Journey]:
        broker, _, topic = place.partition("/")
        try:
            if broker not in self._kinds or not topic:
                raise UnknownSource(place)
            record = BINDINGS[self._kinds[broker]].encode(decoded, EncodeOptions(), key)
        except SenderError as error:
            return Journey(event=decoded.event, routes=(), refused=error)
        hop = yield from self._follower.follow(broker, topic, "another client", record)
        return Journey(event=decoded.event, routes=(), hops=(hop,))

    def _verdicts(
        self, event: CloudEvent, named: str | None, *, filtered: bool
    ) -> Steps[tuple[RouteVerdict, ...]]:
        """Return the verdict of each route. If the request names a route, only its filters are evaluated, and
        only if ``filtered``.
        """
        verdicts: list[RouteVerdict] = []
        found = False
        for name, explain_all in self._of_route.items():
            is_named = name == named
            if found or (named is not None and not (filtered and is_named)):
                chosen = is_named and not filtered
                verdicts.append(
                    RouteVerdict(name, chosen, asked=False, why=NAMED if chosen else "")
                )
                continue
            filters = yield from explain_all.steps(event)
            found = all(each.passes for each in filters)
            verdicts.append(RouteVerdict(name, found, asked=True, filters=filters))
        return tuple(verdicts)

    def _by_schema(
        self, event: CloudEvent, chosen: str, verdicts: tuple[RouteVerdict, ...]
    ) -> tuple[str, tuple[RouteVerdict, ...]]:
        """Return the route that takes the event after its data was validated, and the changed verdicts."""
        faults = tuple(self._router.faults(chosen, event))
        setting = self._routes[chosen].data_schema
        if not faults or setting is None:
            return chosen, verdicts
        other = setting.on_invalid
        if not isinstance(other, OtherRoute):
            return chosen, tuple(
                replace(each, invalid=faults) if each.name == chosen else each for each in verdicts
            )
        why = f"the data does not match the schema of route {chosen}"
        return other.route, tuple(
            replace(
                each,
                chosen=each.name == other.route,
                invalid=faults if each.name == chosen else each.invalid,
                why=why if each.name == other.route else "",
            )
            for each in verdicts
        )

    def _hops(
        self, decoded: Decoded, request_key: bytes | None, chosen: str
    ) -> Steps[tuple[JourneyHop, ...]]:
        targets = self._routes[chosen].to
        publications = self._router.plan(decoded, request_key, chosen)
        hops: list[JourneyHop] = []
        for target, publication in zip(targets, publications, strict=True):
            topic, record, by = publication.topic, publication.record, f"route {chosen}"
            hops.append((yield from self._follower.follow(target.broker, topic, by, record)))
        return tuple(hops)


def _targets_of(
    routes: Sequence[Route], subscriptions: Sequence[Subscription]
) -> Iterator[Target | Exchange]:
    for route in routes:
        yield from route.to
    for each in subscriptions:
        if isinstance(each.sink, Target | Exchange):
            yield each.sink
        if each.dead_letter is not None:
            yield each.dead_letter
