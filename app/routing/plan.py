"""The decision on the way in: from an event to what is published where."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from app.bindings.record import Decoded, Record
from app.bindings.run import Run
from app.bindings.table import BINDINGS, Binding
from app.bindings.transcode import Writing
from app.errors import Fault
from app.event.value import CloudEvent
from app.filters.cesql.expression import Failed
from app.model.log_name import LogName
from app.model.route import DataSchema, Exchange, OtherRoute, Route, Target, log_of
from app.model.subscription import Subscription
from app.routing.data_schema import Check, InvalidData
from app.routing.identity import Identify, Identity, compile_identity
from app.routing.keys import (
    NO_MAPPERS,
    KeyMapper,
    Keys,
    MissingKey,
    PlainMapper,
    compile_key,
    compile_keys,
)
from app.routing.places import compile_place, named_in
from app.routing.rules import NoRoute, Rules, UnknownRoute
from app.routing.templates import BadTopic

__all__ = ["BadTopic", "MissingKey", "NoRoute", "Publication", "Router", "UnknownRoute", "written"]


class Publication(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """One record for one topic. Targets that write alike share the record.

    ``identity``  of an event that is stored once.
    """

    route: str
    log: LogName
    topic: str
    record: Record
    identity: Identity | None = None

    @property
    def broker(self) -> str:
        return self.log.broker


def written(
    publications: Sequence[Publication],
) -> tuple[list[Record], list[Identity | None] | None]:
    """What a log is given of those for one topic: the records, and where any has one, their identities."""
    identities = [publication.identity for publication in publications]
    records = [publication.record for publication in publications]
    return records, identities if any(identities) else None


_Encode = Callable[[Decoded, Writing, bytes | None], Record]
_Plan = Callable[[Decoded, bytes | None, str], tuple[Publication, ...]]
_PlanRun = Callable[[Run, bytes | None], Iterable[Publication] | None]
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


class Manner(msgspec.Struct, frozen=True):
    """How all records of one broker are written, whatever the route: settings of the Pulsar binding."""

    names: Literal["CE-", "ce_"] = "CE-"
    strings: Literal["bare", "json"] = "bare"


NO_MANNERS: Mapping[str, Manner] = MappingProxyType({})
USUAL = Manner()


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
                _target(route, target, f"{setting}.to[{n}]", kinds, manners, route.name in spools)
                for n, target in enumerate(route.to)
            ]
            plan_run: _PlanRun = _each_by_itself
            if len(targets) == 1:
                plan = _to_one(route.name, key, targets[0])
                plan_run = _run_to_one(route.name, compile_keys(route.key), targets[0])
            else:
                plan = _to_each(route.name, key, targets)
            identify = compile_identity(route)
            if identify is not None:
                plan, plan_run = _once(plan, identify), _each_by_itself
            if route.data_schema is not None:
                plan = self._checked(plan, route.name, route.data_schema, invalid)
                plan_run = _each_by_itself
            return _Compiled(route.name, plan, plan_run)

        self._rules: Rules[_Compiled] = Rules(routes, compiled, failed)

    def takes(self, route: str | None) -> bool:
        """Whether an event could be taken there: by any route, for None. Raises UnknownRoute (404)."""
        return bool(self._rules if route is None else self._rules.named(route))

    def faults(self, route: str, event: CloudEvent) -> Sequence[Fault]:
        """What of its data does not match the schema of the route; nothing where that has none."""
        check = self._checks.get(route)
        return check(event) if check else ()

    def _checked(self, plan: _Plan, route: str, setting: DataSchema, invalid: Told) -> _Plan:
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


def writing_of(of: Route | Subscription, manner: Manner = USUAL) -> Writing:
    """``manner``: of the broker that it goes to, where it goes to one."""
    return Writing(
        mode=of.content_mode,
        format=of.format,
        version=of.specversion,
        empty_body=of.empty_body if isinstance(of, Route) else None,
        names=manner.names,
        strings=manner.strings,
    )


class _Compiled(NamedTuple):
    """What becomes of the events of a route, by its name: of one, and of several that look alike."""

    name: str
    plan: _Plan
    plan_run: _PlanRun


class _Target(NamedTuple):
    """``binding`` of its broker's kind; ``topic`` from the event's attributes, those of ``named``."""

    log: LogName
    binding: Binding
    writing: Writing
    topic: Callable[[Mapping[str, str]], str]
    named: tuple[str, ...]


def _target(
    route: Route,
    target: Target | Exchange,
    setting: str,
    kinds: Mapping[str, str],
    manners: Mapping[str, Manner],
    spools: bool,
) -> _Target:
    kind = kinds.get(target.broker, "embedded")
    return _Target(
        log_of(route, target)._replace(spooled=route.name if spools else ""),
        BINDINGS[kind],
        writing_of(route, manners.get(target.broker, USUAL)),
        compile_place(target, kind, setting=setting),
        named_in(target),
    )


def _to_one(name: str, key: KeyMapper, target: _Target) -> _Plan:
    """The usual route, without a loop."""
    log, encode, writing, topic = target.log, target.binding.encode, target.writing, target.topic

    def plan(
        decoded: Decoded, request_key: bytes | None, _producer: str
    ) -> tuple[Publication, ...]:
        event = decoded.event
        place = topic(event.attributes)
        record = encode(decoded, writing, key(event, request_key))
        return (Publication(name, log, place, record),)

    return plan


def _run_to_one(name: str, keys_of: Keys, target: _Target) -> _PlanRun:
    def plan_run(run: Run, request_key: bytes | None) -> Iterable[Publication] | None:
        keys = keys_of(run, request_key)
        if keys is None or not run.has_one(target.named):
            return None
        records = target.binding.encode_run(run, target.writing, keys)
        if records is None:
            return None
        place = target.topic(run[0].event.attributes)
        return map(Publication, repeat(name), repeat(target.log), repeat(place), records)

    return plan_run


def _each_by_itself(_run: Run, _request_key: bytes | None) -> None:
    """Of a route that has no shorter way."""


def _to_each(name: str, mapper: KeyMapper, targets: Sequence[_Target]) -> _Plan:
    """One key for all, whatever the number of targets, and one record for each way of writing."""
    every = [(target.binding.encode, target.writing) for target in targets]
    ways = tuple(dict.fromkeys(every))
    chosen = [ways.index(way) for way in every]

    def plan(
        decoded: Decoded, request_key: bytes | None, _producer: str
    ) -> tuple[Publication, ...]:
        event = decoded.event
        topics = [target.topic(event.attributes) for target in targets]
        key = mapper(event, request_key)
        records = [encode(decoded, writing, key) for encode, writing in ways]
        return tuple(
            Publication(name, target.log, topic, records[way])
            for target, topic, way in zip(targets, topics, chosen, strict=True)
        )

    return plan


def _once(plan: _Plan, identify: Identify) -> _Plan:
    """Each target has the event once, by itself: a repeat reaches the one that failed."""

    def with_identity(
        decoded: Decoded, request_key: bytes | None, producer: str
    ) -> tuple[Publication, ...]:
        identity = identify(decoded.event, producer)
        return tuple(
            msgspec.structs.replace(publication, identity=identity)
            for publication in plan(decoded, request_key, producer)
        )

    return with_identity
