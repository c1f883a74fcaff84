"""What a producer may send: sources, types and routes, as exact texts or prefixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from app.errors import Fault, SenderError
from app.event.validate import clip
from app.model.producer import EVERYTHING, May

Matches = Callable[[str], bool]


class NotAllowed(SenderError):
    """403: the producer is known and may not send this."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("Not allowed", status=403, code="not-allowed", faults=faults)


def compile_patterns(patterns: Iterable[str]) -> Matches:
    """``*`` at the end of a pattern stands for any characters; another pattern is the text itself."""
    exact = frozenset(each for each in patterns if not each.endswith("*"))
    prefixes = tuple(each[:-1] for each in patterns if each.endswith("*"))
    if not prefixes:
        return exact.__contains__
    if not exact:
        return lambda text: text.startswith(prefixes)
    return lambda text: text in exact or text.startswith(prefixes)


class Rights:
    """``may`` of ``producer``, compiled. ``limited``: it may not send everything everywhere.
    ``limits_events``: not every source or not every type."""

    __slots__ = ("_producer", "_routes", "_sources", "_types", "limited", "limits_events")

    def __init__(self, producer: str, may: May) -> None:
        self._producer = producer
        self._routes = compile_patterns(may.routes)
        self._sources = compile_patterns(may.sources)
        self._types = compile_patterns(may.types)
        self.limits_events = {may.sources, may.types} != {EVERYTHING}
        self.limited = self.limits_events or may.routes != EVERYTHING

    def refusal(self, attributes: Mapping[str, str], named: str | None) -> NotAllowed | None:
        """Before a route is chosen. ``named``: the route that the request names."""
        faults = self.faults_of(attributes)
        if named is not None:
            faults += self.faults_of_route(named)
        return NotAllowed(faults) if faults else None

    def demand_route(self, route: str) -> None:
        """Raises NotAllowed where the rules chose another route than the producer may use."""
        if faults := self.faults_of_route(route):
            raise NotAllowed(faults)

    def faults_of(self, attributes: Mapping[str, str]) -> list[Fault]:
        """Of an event, by its attributes under their names of 1.0. An event whose source or type cannot
        be read (a document in an unknown format) is allowed only where every one is."""
        faults = []
        if not self._sources(attributes.get("source", "")):
            faults.append(self._fault("source", attributes.get("source")))
        if not self._types(attributes.get("type", "")):
            faults.append(self._fault("type", attributes.get("type")))
        return faults

    def faults_of_route(self, route: str) -> list[Fault]:
        if self._routes(route):
            return []
        detail = f"Producer {self._producer} may not use route {clip(route)}."
        return [Fault("route-not-allowed", detail, at="route")]

    def _fault(self, name: str, value: str | None) -> Fault:
        what = f"an event whose {name} cannot be read" if value is None else f"{name} {clip(value)}"
        detail = f"Producer {self._producer} may not send {what}."
        return Fault(f"{name}-not-allowed", detail, at=name)


class KafkaAccess(msgspec.Struct, frozen=True):
    """What a user may do on a Kafka listener: predicates over names of topics and groups."""

    write: Matches
    read: Matches
    groups: Matches
    delete: Matches


def _all(_: str) -> bool:
    return True


EVERY_RIGHT = KafkaAccess(_all, _all, _all, _all)
