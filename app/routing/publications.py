"""What a route publishes: the records of an event for each of its targets, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from app.bindings.record import Decoded, Record
from app.bindings.run import Run
from app.bindings.table import BINDINGS, Binding
from app.bindings.transcode import Writing
from app.model.log_name import LogName
from app.model.route import Exchange, Route, Target, log_of
from app.model.subscription import Subscription
from app.routing.identity import Identify, Identity
from app.routing.keys import KeyMapper, Keys
from app.routing.places import compile_place, named_in


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


Plan = Callable[[Decoded, bytes | None, str], tuple[Publication, ...]]
PlanRun = Callable[[Run, bytes | None], Iterable[Publication] | None]


class Manner(msgspec.Struct, frozen=True):
    """How all records of one broker are written, whatever the route: settings of the Pulsar binding."""

    names: Literal["CE-", "ce_"] = "CE-"
    strings: Literal["bare", "json"] = "bare"


NO_MANNERS: Mapping[str, Manner] = MappingProxyType({})
USUAL = Manner()


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


class CompiledTarget(NamedTuple):
    """``binding`` of its broker's kind; ``topic`` from the event's attributes, those of ``named``."""

    log: LogName
    binding: Binding
    writing: Writing
    topic: Callable[[Mapping[str, str]], str]
    named: tuple[str, ...]


def compile_target(
    route: Route,
    target: Target | Exchange,
    setting: str,
    kinds: Mapping[str, str],
    manners: Mapping[str, Manner],
    spools: bool,
) -> CompiledTarget:
    kind = kinds.get(target.broker, "embedded")
    return CompiledTarget(
        log_of(route, target)._replace(spooled=route.name if spools else ""),
        BINDINGS[kind],
        writing_of(route, manners.get(target.broker, USUAL)),
        compile_place(target, kind, setting=setting),
        named_in(target),
    )


def to_one(name: str, key: KeyMapper, target: CompiledTarget) -> Plan:
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


def run_to_one(name: str, keys_of: Keys, target: CompiledTarget) -> PlanRun:
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


def each_by_itself(_run: Run, _request_key: bytes | None) -> None:
    """Of a route that has no shorter way."""


def to_each(name: str, mapper: KeyMapper, targets: Sequence[CompiledTarget]) -> Plan:
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


def once(plan: Plan, identify: Identify) -> Plan:
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
