"""The decision on the way in: from an event to what is published where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from app.bindings.record import Decoded, Record
from app.bindings.table import BINDINGS
from app.bindings.transcode import Writing
from app.filters.cesql.expression import Failed
from app.model.route import Exchange, Route, Target, log_name
from app.routing.keys import NO_MAPPERS, KeyMapper, MissingKey, PlainMapper, compile_key
from app.routing.places import compile_place
from app.routing.rules import NoRoute, Rules, UnknownRoute
from app.routing.templates import BadTopic

__all__ = ["BadTopic", "MissingKey", "NoRoute", "Publication", "Router", "UnknownRoute"]


class Publication(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """One record for one topic. Targets that write alike share the record.

    ``broker``  the name of the log that publishes: of the broker itself, or, where fewer replicas
                must have the record, of the one that waits for those (rule 1).
    """

    route: str
    broker: str
    topic: str
    record: Record


_Encode = Callable[[Decoded, Writing, bytes | None], Record]
_Plan = Callable[[Decoded, bytes | None], tuple[Publication, ...]]
NO_KINDS: Mapping[str, str] = MappingProxyType({})


class Manner(msgspec.Struct, frozen=True):
    """How all records of one broker are written, whatever the route: settings of the Pulsar binding."""

    names: Literal["CE-", "ce_"] = "CE-"
    strings: Literal["bare", "json"] = "bare"


NO_MANNERS: Mapping[str, Manner] = MappingProxyType({})
_USUAL = Manner()


class Router:
    """Routes compiled once, with an operator's own key mappers by name. SetupError names the setting
    that cannot be compiled.

    ``kinds``    of the brokers, by name: they decide the binding; embedded where it says nothing.
    ``manners``  of writing, by the name of the broker, where one has its own.
    ``failed``   see ``Rules``.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        mappers: Mapping[str, PlainMapper] = NO_MAPPERS,
        kinds: Mapping[str, str] = NO_KINDS,
        manners: Mapping[str, Manner] = NO_MANNERS,
        *,
        failed: Callable[[str], Failed] | None = None,
    ) -> None:
        def compiled(route: Route, setting: str) -> _Plan:
            key = compile_key(route.key, setting=f"{setting}.key", own=mappers)
            targets = [
                _target(route, target, f"{setting}.to[{n}]", kinds, manners)
                for n, target in enumerate(route.to)
            ]
            if len(targets) == 1:
                return _to_one(route.name, key, targets[0])
            return _to_each(route.name, key, targets)

        self._rules: Rules[_Plan] = Rules(routes, compiled, failed)

    def takes(self, route: str | None) -> bool:
        """Whether an event could be taken there: by any route, for None. Raises UnknownRoute (404)."""
        return bool(self._rules if route is None else self._rules.named(route))

    def plan(
        self,
        decoded: Decoded,
        request_key: bytes | None,
        route: str | None = None,
        *,
        filtered: bool = False,
    ) -> tuple[Publication, ...]:
        """The publications of one event; all of them stored means 202.

        ``request_key``  the sender's own key (K7); mappers other than from_request pass it over.
        ``route``        the name in ``/events/{route}``: that route takes the event, and its filters
                         are not asked but where ``filtered``.

        Raises NoRoute (422), UnknownRoute (404), MissingKey and BadTopic (400), KeyMapperFailed (503),
        and SenderError for an event that cannot be written as the route wants it (415, 422).
        """
        event = decoded.event
        if route is None:
            chosen = self._rules.first(event)
        else:
            chosen = self._rules.named(route, event if filtered else None)
        return chosen(decoded, request_key)


def writing_of(route: Route, manner: Manner = _USUAL) -> Writing:
    return Writing(
        mode=route.content_mode,
        format=route.format,
        version=route.specversion,
        empty_body=route.empty_body,
        names=manner.names,
        strings=manner.strings,
    )


class _Target(NamedTuple):
    """``encode`` of the binding of its broker's kind; ``topic`` from the event's attributes."""

    log: str
    encode: _Encode
    writing: Writing
    topic: Callable[[Mapping[str, str]], str]


def _target(
    route: Route,
    target: Target | Exchange,
    setting: str,
    kinds: Mapping[str, str],
    manners: Mapping[str, Manner],
) -> _Target:
    kind = kinds.get(target.broker, "embedded")
    return _Target(
        log_name(target.broker, route.acknowledgements),
        BINDINGS[kind].encode,
        writing_of(route, manners.get(target.broker, _USUAL)),
        compile_place(target, kind, setting=setting),
    )


def _to_one(name: str, key: KeyMapper, target: _Target) -> _Plan:
    """The usual route, without a loop."""
    log, encode, writing, topic = target

    def plan(decoded: Decoded, request_key: bytes | None) -> tuple[Publication, ...]:
        event = decoded.event
        place = topic(event.attributes)
        record = encode(decoded, writing, key(event, request_key))
        return (Publication(name, log, place, record),)

    return plan


def _to_each(name: str, mapper: KeyMapper, targets: Sequence[_Target]) -> _Plan:
    """One key for all, whatever the number of targets, and one record for each way of writing."""
    ways = tuple(dict.fromkeys((target.encode, target.writing) for target in targets))
    chosen = [ways.index((target.encode, target.writing)) for target in targets]

    def plan(decoded: Decoded, request_key: bytes | None) -> tuple[Publication, ...]:
        event = decoded.event
        topics = [target.topic(event.attributes) for target in targets]
        key = mapper(event, request_key)
        records = [encode(decoded, writing, key) for encode, writing in ways]
        return tuple(
            Publication(name, target.log, topic, records[way])
            for target, topic, way in zip(targets, topics, chosen, strict=True)
        )

    return plan
