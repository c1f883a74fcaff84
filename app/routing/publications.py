"""The records that a route publishes for an event, one per target, compiled once per route."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from app.bindings.record import Decoded, Header, Record
from app.bindings.run import EventColumns
from app.bindings.table import BINDINGS, Binding
from app.bindings.transcode import EncodeOptions
from app.model.log_name import LogName
from app.model.route import Exchange, KeyPolicy, Route, Target, log_of
from app.model.subscription import Subscription
from app.routing.identity import Identify, Identity
from app.routing.keys import KeyMapper, Keys, key_place
from app.routing.places import compile_place, named_in


class Publication(
    msgspec.Struct, frozen=True, gc=False
):  # an instance can be in no reference cycle
    """One record for one topic. Targets with the same encoding share the record.

    Attributes:
        route: The name of the route.
        log: The log that publishes the record.
        topic: The topic, as ``routing.places`` writes it.
        record: The record.
        identity: The identity of an event that is stored once. None without ``deduplicate``.
    """

    route: str
    log: LogName
    topic: str
    record: Record
    identity: Identity | None = None

    @property
    def broker(self) -> str:
        """Return the name of the broker."""
        return self.log.broker


class PublicationRun(msgspec.Struct, frozen=True, gc=False):
    """The records of a batch, all for one topic and without identities.

    Attributes:
        route: The name of the route.
        log: The log that publishes the records.
        topic: The topic.
        records: One record for each event, in order.
    """

    route: str
    log: LogName
    topic: str
    records: list[Record]

    def publications(self) -> list[Publication]:
        """Return the publication of each event, in order."""
        name, log, topic = self.route, self.log, self.topic
        return [Publication(name, log, topic, record) for record in self.records]


def records_and_identities(
    publications: Sequence[Publication],
) -> tuple[list[Record], list[Identity | None] | None]:
    """Return the records of publications to one topic, and their identities, or None if no record has one."""
    identities = [publication.identity for publication in publications]
    records = [publication.record for publication in publications]
    return records, identities if any(identities) else None


Plan = Callable[[Decoded, bytes | None, str], tuple[Publication, ...]]
"""A function from an event, the request's key and the producer's name to publications."""
PlanRun = Callable[[EventColumns, bytes | None], PublicationRun | None]
"""A function from a batch by column and the request's key to its publications. None if events must be planned one by
one.
"""


PlanRow = Callable[[Sequence[bytes], bytes], Publication | None]
"""A function from the attribute values and the body of an event in binary mode to its publication. None if the event
must be planned on its own. All its events have the same attribute names."""


class PulsarProfile(msgspec.Struct, frozen=True):
    """The encoding settings of one Pulsar broker, which apply to all routes and subscriptions that publish to it."""

    names: Literal["CE-", "ce_"] = "CE-"
    strings: Literal["bare", "json"] = "bare"


NO_PULSAR_PROFILES: Mapping[str, PulsarProfile] = MappingProxyType({})
DEFAULT_PULSAR_PROFILE = PulsarProfile()


def encode_options_of(
    of: Route | Subscription, manner: PulsarProfile = DEFAULT_PULSAR_PROFILE
) -> EncodeOptions:
    """Return the encoding options of a route or subscription.

    Args:
        of: The route or subscription.
        manner: The Pulsar settings of the target broker.
    """
    return EncodeOptions(
        mode=of.content_mode,
        format=of.format,
        version=of.specversion,
        empty_body=of.empty_body if isinstance(of, Route) else None,
        names=manner.names,
        strings=manner.strings,
    )


class CompiledTarget(NamedTuple):
    """A target of a route, compiled.

    Attributes:
        log: The log that publishes.
        binding: The binding for the kind of its broker.
        writing: The encoding options.
        topic: Returns the topic from the attributes of an event.
        named: The attributes that the topic needs.
    """

    log: LogName
    binding: Binding
    writing: EncodeOptions
    topic: Callable[[Mapping[str, str]], str]
    named: tuple[str, ...]


def compile_target(
    route: Route,
    target: Target | Exchange,
    setting: str,
    kinds: Mapping[str, str],
    manners: Mapping[str, PulsarProfile],
    spools: bool,
) -> CompiledTarget:
    """Return a compiled target. Raises SetupError if its place cannot be compiled."""
    kind = kinds.get(target.broker, "embedded")
    return CompiledTarget(
        log_of(route, target)._replace(spooled=route.name if spools else ""),
        BINDINGS[kind],
        encode_options_of(route, manners.get(target.broker, DEFAULT_PULSAR_PROFILE)),
        compile_place(target, kind, setting=setting),
        named_in(target),
    )


def single_target_plan(name: str, key: KeyMapper, target: CompiledTarget) -> Plan:
    """Return the plan of a route with one target, the usual case."""
    log, encode, writing, topic = target.log, target.binding.encode, target.writing, target.topic

    def plan(
        decoded: Decoded, request_key: bytes | None, _producer: str
    ) -> tuple[Publication, ...]:
        event = decoded.event
        place = topic(event.attributes)
        record = encode(decoded, writing, key(event, request_key))
        return (Publication(name, log, place, record),)

    return plan


def single_target_batch_plan(name: str, keys_of: Keys, target: CompiledTarget) -> PlanRun:
    """Return the batch plan of a route with one target."""

    def plan_run(run: EventColumns, request_key: bytes | None) -> PublicationRun | None:
        keys = keys_of(run, request_key)
        if keys is None or not run.has_one(target.named):
            return None
        records = target.binding.encode_run(run, target.writing, keys)
        if records is None:
            return None
        place = target.topic(run[0].event.attributes)
        return PublicationRun(name, target.log, place, list(records))

    return plan_run


def no_batch_plan(_run: EventColumns, _request_key: bytes | None) -> None:
    """Return None: the events of this route must be planned one by one."""


class RowTarget(NamedTuple):
    """The only target of a route, for events that are planned by their attribute names.

    Attributes:
        route: The name of the route.
        key: The setting ``key`` of the route.
        target: The target.
    """

    route: str
    key: KeyPolicy
    target: CompiledTarget

    def plan(
        self,
        names: tuple[str, ...],
        content_type: str | None,
        foreign: Sequence[Header],
        attributes: Mapping[str, str],
    ) -> PlanRow | None:
        """Return the plan of events with these names, or None if they must be planned one by one.

        Args:
            names: The attribute names, without the content type.
            content_type: The content type of the data, if the events have one.
            foreign: The foreign headers of each event.
            attributes: The attributes that the topic needs, the same in all events.
        """
        name, log, topic = self.route, self.target.log, self.target.topic(attributes)
        at = key_place(self.key, names)
        form = self.target.binding.record_form(names, content_type, self.target.writing, foreign)
        if at is None or form is None:
            return None

        def plan_row(values: Sequence[bytes], body: bytes) -> Publication:
            key = values[at] if at >= 0 else None
            return Publication(name, log, topic, form(key, values, body))

        return plan_row


def multi_target_plan(name: str, mapper: KeyMapper, targets: Sequence[CompiledTarget]) -> Plan:
    """Return the plan of a route with several targets. All share one key, and targets with equal options share
    one record.
    """
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


def deduplicating_plan(plan: Plan, identify: Identify) -> Plan:
    """Return the plan with the identity of the event in each publication, for a route with ``deduplicate``.

    Each target deduplicates on its own, so that a repeat reaches the target that failed.
    """

    def with_identity(
        decoded: Decoded, request_key: bytes | None, producer: str
    ) -> tuple[Publication, ...]:
        identity = identify(decoded.event, producer)
        return tuple(
            msgspec.structs.replace(publication, identity=identity)
            for publication in plan(decoded, request_key, producer)
        )

    return with_identity
