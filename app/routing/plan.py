"""The decision on the way in: from an event to what is published where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from app.bindings import kafka
from app.bindings.convert import in_version
from app.bindings.record import Decoded, Record
from app.model.route import Route
from app.routing.keys import NO_MAPPERS, KeyMapper, MissingKey, PlainMapper, compile_key
from app.routing.rules import NoRoute, Rules, UnknownRoute
from app.routing.templates import BadTopic, compile_topic

__all__ = ["BadTopic", "MissingKey", "NoRoute", "Publication", "Router", "UnknownRoute"]


class Publication(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """One record for one topic. Of a route with several targets each has one; they share the record."""

    route: str
    broker: str
    topic: str
    record: Record


_Plan = Callable[[Decoded, bytes | None], tuple[Publication, ...]]


class Router:
    """Routes compiled once, with an operator's own key mappers by name. SetupError names the setting
    that cannot be compiled.
    """

    def __init__(
        self, routes: Sequence[Route], mappers: Mapping[str, PlainMapper] = NO_MAPPERS
    ) -> None:
        def compiled(route: Route, setting: str) -> _Plan:
            key = compile_key(route.key, setting=f"{setting}.key", own=mappers)
            return _compiled(route, setting, key)

        self._rules: Rules[_Plan] = Rules(routes, compiled)

    def plan(
        self, decoded: Decoded, request_key: bytes | None, route: str | None = None
    ) -> tuple[Publication, ...]:
        """The publications of one event; all of them stored means 202.

        ``request_key``  the sender's own key (K7); mappers other than from_request pass it over.
        ``route``        the name in ``/events/{route}``: that route takes the event, and its filters
                         are not asked.

        Raises NoRoute (422), UnknownRoute (404), MissingKey and BadTopic (400), KeyMapperFailed (503).
        """
        chosen = self._rules.first(decoded.event) if route is None else self._rules.named(route)
        return chosen(decoded, request_key)


def _compiled(route: Route, setting: str, key: KeyMapper) -> _Plan:
    one = len(route.to) == 1
    return _to_one(route, setting, key) if one else _to_each(route, setting, key)


def _encoder(route: Route, mapper: KeyMapper) -> Callable[[Decoded, bytes | None], Record]:
    """Key and record of one event. The key is made once, whatever the number of targets."""
    mode, empty_body, encode = route.content_mode, route.empty_body, kafka.encode

    def record(decoded: Decoded, request_key: bytes | None) -> Record:
        return encode(decoded, mode, mapper(decoded.event, request_key), empty_body)

    version = route.specversion
    if version == "as_received":
        return record
    return lambda decoded, request_key: record(in_version(decoded, version), request_key)


def _to_one(route: Route, setting: str, key: KeyMapper) -> _Plan:
    """The usual route, without a loop."""
    record = _encoder(route, key)
    name, broker = route.name, route.to[0].broker
    topic = compile_topic(route.to[0].topic, setting=f"{setting}.to[0].topic")

    def plan(decoded: Decoded, request_key: bytes | None) -> tuple[Publication, ...]:
        place = topic(decoded.event.attributes)
        return (Publication(name, broker, place, record(decoded, request_key)),)

    return plan


def _to_each(route: Route, setting: str, key: KeyMapper) -> _Plan:
    record = _encoder(route, key)
    name = route.name
    targets = tuple(
        (target.broker, compile_topic(target.topic, setting=f"{setting}.to[{n}].topic"))
        for n, target in enumerate(route.to)
    )

    def plan(decoded: Decoded, request_key: bytes | None) -> tuple[Publication, ...]:
        attributes = decoded.event.attributes
        topics = [(broker, topic(attributes)) for broker, topic in targets]
        made = record(decoded, request_key)
        return tuple(Publication(name, broker, topic, made) for broker, topic in topics)

    return plan
