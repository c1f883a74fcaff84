"""The decision on the way in: from an event to what is published where."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from app.bindings.record import Decoded
from app.bindings.run import Run
from app.errors import Fault
from app.event.value import CloudEvent
from app.filters.cesql.expression import Failed
from app.model.route import DataSchema, OtherRoute, Route
from app.routing.data_schema import Check, InvalidData
from app.routing.identity import compile_identity
from app.routing.keys import NO_MAPPERS, MissingKey, PlainMapper, compile_key, compile_keys
from app.routing.publications import (
    NO_MANNERS,
    Manner,
    Plan,
    PlanRun,
    Publication,
    compile_target,
    each_by_itself,
    once,
    run_to_one,
    to_each,
    to_one,
)
from app.routing.rules import NoRoute, Rules, UnknownRoute
from app.routing.templates import BadTopic

__all__ = ["BadTopic", "MissingKey", "NoRoute", "Router", "UnknownRoute"]


Permit = Callable[[str], None]
"""Raises SenderError where a sender may not use the route of this name."""
Told = Callable[[str, str], None]
"""The name of a route, and what became of an event whose data does not match: rejected, counted, rerouted."""


class Resources(NamedTuple):
    """What routes name and do not hold. ``mappers``: an operator's own key mappers, by name. ``checks``: of
    the data of events, by the name of the route."""

    mappers: Mapping[str, PlainMapper] = NO_MAPPERS
    checks: Mapping[str, Check] = MappingProxyType({})


NO_RESOURCES = Resources()
NO_KINDS: Mapping[str, str] = MappingProxyType({})


class Router:
    """Routes compiled once, with what they name. SetupError names the setting that cannot be compiled.

    ``kinds``    of the brokers, by name: they decide the binding; embedded where it says nothing.
    ``manners``  of writing, by the name of the broker, where one has its own.
    ``failed``   see ``Rules``.
    ``invalid``  is told of each event whose data does not match its route's schema.
    ``spools``   names of the routes that publish by way of a spool.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        resources: Resources = NO_RESOURCES,
        kinds: Mapping[str, str] = NO_KINDS,
        manners: Mapping[str, Manner] = NO_MANNERS,
        *,
        failed: Callable[[str], Failed] | None = None,
        invalid: Told = lambda _route, _outcome: None,
        spools: Collection[str] = (),
    ) -> None:
        self._checks = resources.checks

        def compiled(route: Route, setting: str) -> _Compiled:
            key = compile_key(route.key, setting=f"{setting}.key", own=resources.mappers)
            targets = [
                compile_target(
                    route, target, f"{setting}.to[{n}]", kinds, manners, route.name in spools
                )
                for n, target in enumerate(route.to)
            ]
            plan_run: PlanRun = each_by_itself
            if len(targets) == 1:
                plan = to_one(route.name, key, targets[0])
                plan_run = run_to_one(route.name, compile_keys(route.key), targets[0])
            else:
                plan = to_each(route.name, key, targets)
            identify = compile_identity(route)
            if identify is not None:
                plan, plan_run = once(plan, identify), each_by_itself
            if route.data_schema is not None:
                plan = self._checked(plan, route.name, route.data_schema, invalid)
                plan_run = each_by_itself
            return _Compiled(route.name, plan, plan_run)

        self._rules: Rules[_Compiled] = Rules(routes, compiled, failed)

    def takes(self, route: str | None) -> bool:
        """Whether an event could be taken there: by any route, for None. Raises UnknownRoute (404)."""
        return bool(self._rules if route is None else self._rules.named(route))

    def faults(self, route: str, event: CloudEvent) -> Sequence[Fault]:
        """What of its data does not match the schema of the route; nothing where that has none."""
        check = self._checks.get(route)
        return check(event) if check else ()

    def _checked(self, plan: Plan, route: str, setting: DataSchema, invalid: Told) -> Plan:
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
        """The publications of one event; all of them stored means 202.

        ``request_key``  the sender's own key (K7); mappers other than from_request pass it over.
        ``route``        the name in ``/events/{route}``: that route takes the event, and its filters
                         are not asked but where there is a ``permit``.
        ``producer``     the name of the sender, empty for an unknown one: the same event of two producers
                         is two events.
        ``permit``       of a sender that may not use every route, asked of the chosen one before anything of the
                         event is told; where that sends invalid data is the operator's decision.

        Raises what ``permit`` raises, NoRoute and InvalidData (422), UnknownRoute (404), MissingKey and BadTopic (400), KeyMapperFailed (503),
        and SenderError for an event that cannot be written as the route wants it (415, 422).
        """
        event = decoded.event
        if route is None:
            name, plan, _ = self._rules.first(event)
        else:
            name, plan, _ = self._rules.named(route, None if permit is None else event)
        if permit is not None:
            permit(name)
        return plan(decoded, request_key, producer)

    def plan_run(
        self, run: Run, request_key: bytes | None, route: str | None = None
    ) -> Iterable[Publication] | None:
        """The publication of each event of a batch whose events look alike; None where each is to be planned by
        itself, also for what is wrong with it. Raises UnknownRoute (404)."""
        try:
            found = self._rules.first_of_all(run) if route is None else self._rules.named(route)
            return None if found is None else found.plan_run(run, request_key)
        except (NoRoute, BadTopic):
            return None


class _Compiled(NamedTuple):
    """What becomes of the events of a route, by its name: of one, and of several that look alike."""

    name: str
    plan: Plan
    plan_run: PlanRun
