"""Decide what is published where, for each accepted event."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from app.bindings.record import Decoded, Header
from app.bindings.run import EventColumns
from app.errors import Fault, SenderError
from app.event.value import CloudEvent
from app.filters.cesql.expression import Failed
from app.model.route import DataSchema, OtherRoute, Route
from app.routing.data_schema import Check, InvalidData
from app.routing.identity import compile_identity
from app.routing.keys import NO_MAPPERS, MissingKey, PlainMapper, compile_key, compile_keys
from app.routing.publications import (
    NO_PULSAR_PROFILES,
    Plan,
    PlanRow,
    PlanRun,
    Publication,
    PublicationRun,
    PulsarProfile,
    RowTarget,
    compile_target,
    deduplicating_plan,
    multi_target_plan,
    no_batch_plan,
    single_target_batch_plan,
    single_target_plan,
)
from app.routing.rules import NoRoute, Rules, UnknownRoute
from app.routing.templates import BadTopic

__all__ = ["BadTopic", "MissingKey", "NoRoute", "Router", "UnknownRoute"]


Permit = Callable[[str], None]
"""A function that raises SenderError if a sender may not use the route of this name."""
InvalidDataCallback = Callable[[str, str], None]
"""A function that is called for an event with invalid data. Its arguments are the name of the route, and what was
done: rejected, counted or rerouted."""


class Resources(NamedTuple):
    """The key mappers and data checks that routes refer to by name.

    Attributes:
        mappers: The operator's key mappers, by name.
        checks: The checks of event data, by the name of the route.
    """

    mappers: Mapping[str, PlainMapper] = NO_MAPPERS
    checks: Mapping[str, Check] = MappingProxyType({})


NO_RESOURCES = Resources()
CHOICES = 64  # plans of one head, each of about 2 kB
LONGEST_CHOICE = 256  # bytes of the values that decide
NO_KINDS: Mapping[str, str] = MappingProxyType({})


class Router:
    """The routes in force, compiled once."""

    def __init__(
        self,
        routes: Sequence[Route],
        resources: Resources = NO_RESOURCES,
        kinds: Mapping[str, str] = NO_KINDS,
        manners: Mapping[str, PulsarProfile] = NO_PULSAR_PROFILES,
        *,
        failed: Callable[[str], Failed] | None = None,
        invalid: InvalidDataCallback = lambda _route, _outcome: None,
        spools: Collection[str] = (),
    ) -> None:
        """Compile the routes.

        Args:
            routes: The routes, in order.
            resources: What the routes refer to.
            kinds: The kind of each broker, by name, which selects the binding. A broker without a kind is embedded.
            manners: The Pulsar settings of brokers, by name.
            failed: See ``Rules``.
            invalid: Called for each event whose data does not match the schema of its route.
            spools: The names of the routes that publish through a spool.

        Raises:
            SetupError: A setting cannot be compiled. The error names the setting.
        """
        self._checks = resources.checks

        def compiled(route: Route, setting: str) -> _Compiled:
            key = compile_key(route.key, setting=f"{setting}.key", own=resources.mappers)
            targets = [
                compile_target(
                    route, target, f"{setting}.to[{n}]", kinds, manners, route.name in spools
                )
                for n, target in enumerate(route.to)
            ]
            plan_run: PlanRun = no_batch_plan
            row: RowTarget | None = RowTarget(route.name, route.key, targets[0])
            if len(targets) == 1:
                plan = single_target_plan(route.name, key, targets[0])
                plan_run = single_target_batch_plan(route.name, compile_keys(route.key), targets[0])
            else:
                plan = multi_target_plan(route.name, key, targets)
            identify = compile_identity(route)
            if identify is not None:
                plan, plan_run = deduplicating_plan(plan, identify), no_batch_plan
            if len(targets) > 1 or identify is not None or route.data_schema is not None:
                row = None
            if route.data_schema is not None:
                plan = self._checked(plan, route.name, route.data_schema, invalid)
                plan_run = no_batch_plan
            return _Compiled(route.name, plan, plan_run, row)

        self._rules: Rules[_Compiled] = Rules(routes, compiled, failed)

    def takes(self, route: str | None) -> bool:
        """Return True if some route, or the route of this name, may take events. Raises UnknownRoute (404)."""
        return bool(self._rules if route is None else self._rules.named(route))

    def faults(self, route: str, event: CloudEvent) -> Sequence[Fault]:
        """Return the faults of the event's data against the schema of a route. A route without schema has none."""
        check = self._checks.get(route)
        return check(event) if check else ()

    def _checked(
        self, plan: Plan, route: str, setting: DataSchema, invalid: InvalidDataCallback
    ) -> Plan:
        check, on_invalid = self._checks[route], setting.on_invalid

        def with_schema(
            decoded: Decoded, request_key: bytes | None, producer: str
        ) -> tuple[Publication, ...]:
            faults = check(decoded.event)
            if not faults:
                return plan(decoded, request_key, producer)
            if on_invalid == "reject":
                invalid(route, "rejected")
                raise InvalidData(faults)
            if isinstance(on_invalid, OtherRoute):
                invalid(route, "rerouted")
                other = self._rules.named(on_invalid.route)
                return other.plan(decoded, request_key, producer)
            invalid(route, "counted")
            return plan(decoded, request_key, producer)

        return with_schema

    def plan(
        self,
        decoded: Decoded,
        request_key: bytes | None,
        route: str | None = None,
        producer: str = "",
        permit: Permit | None = None,
    ) -> tuple[Publication, ...]:
        """Return the publications of one event. The sender gets 202 when all of them are stored.

        Args:
            decoded: The event.
            request_key: The key that the sender gives, which only the mapper ``from_request`` uses.
            route: The name in ``/events/{route}``. That route takes the event, and its filters are evaluated
                only with ``permit``.
            producer: The name of the sender, or "" for an unknown one. Two producers never share an identity.
            permit: Called with the chosen route, for a sender that may not use every route. It is not called
                for a route that takes invalid data.

        Raises:
            NoRoute: No route matches (422).
            InvalidData: The data does not match the schema (422).
            UnknownRoute: There is no route of this name (404).
            MissingKey: The route demands a key (400).
            BadTopic: The attributes make no topic name (400).
            KeyMapperFailed: The operator's key mapper failed (503).
            SenderError: The event cannot be written as the route demands (415, 422), or ``permit`` refused.
        """
        event = decoded.event
        if route is None:
            made = self._rules.first(event)
        else:
            made = self._rules.named(route, None if permit is None else event)
        if permit is not None:
            permit(made.name)
        return made.plan(decoded, request_key, producer)

    def plan_run(
        self, run: EventColumns, request_key: bytes | None, route: str | None = None
    ) -> PublicationRun | None:
        """Return the publications of a batch by column, or None if each event must be planned on its own.

        None is also the answer if an event has a fault. Raises UnknownRoute (404).
        """
        try:
            found = self._rules.first_of_all(run) if route is None else self._rules.named(route)
            return None if found is None else found.plan_run(run, request_key)
        except (NoRoute, BadTopic):
            return None

    def plan_rows(
        self,
        names: tuple[str, ...],
        content_type: str | None,
        route: str | None = None,
        foreign: Sequence[Header] = (),
    ) -> PlanRow | None:
        """Return the plan of events in binary mode that all have these attribute names. It chooses the route once
        for all events with the same values of the attributes that filters and topics read.

        Return None if ``plan`` must plan each event.

        Args:
            names: The attribute names, without the content type.
            content_type: The content type of the data, if the events have one.
            route: The name in ``/events/{route}``.
            foreign: The foreign headers of each event.
        """
        read = self._rules.read if route is None else frozenset()
        if read is None:
            return None
        made = self._rules if route is None else (self._rules.named(route),)
        read = read.union(*[each.row.target.named for each in made if each.row is not None])
        deciding = [name for name in names if name in read]

        def choose(values: tuple[bytes, ...]) -> PlanRow | None:
            texts = [value.decode() for value in values]
            attributes = dict(zip(deciding, texts, strict=True))
            if content_type is not None:
                attributes["datacontenttype"] = content_type
            event = CloudEvent(attributes)
            try:
                found = self._rules.first(event) if route is None else self._rules.named(route)
                row = found.row
                return row and row.plan(names, content_type, foreign, attributes)
            except SenderError:  # ``plan`` raises it for each event
                return None

        if not deciding:
            return choose(())
        places = [names.index(name) for name in deciding]
        chosen = _Choices(choose)

        def plan_row(values: Sequence[bytes], body: bytes) -> Publication | None:
            plan = chosen[tuple([values[place] for place in places])]
            return plan and plan(values, body)

        return plan_row


class _Choices(dict[tuple[bytes, ...], PlanRow | None]):
    """The plans of the first combinations of values that came with a head. Later combinations have none, because senders
    choose the values and could fill the memory."""

    def __init__(self, choose: Callable[[tuple[bytes, ...]], PlanRow | None]) -> None:
        super().__init__()
        self._choose = choose

    def __missing__(self, values: tuple[bytes, ...]) -> PlanRow | None:
        if len(self) >= CHOICES or sum(map(len, values)) > LONGEST_CHOICE:
            return None
        plan = self[values] = self._choose(values)
        return plan


class _Compiled(NamedTuple):
    """A compiled route: its name, its plan for one event, and its plan for a batch by column. ``row`` is its target
    if events may be planned by their attribute names."""

    name: str
    plan: Plan
    plan_run: PlanRun
    row: RowTarget | None
