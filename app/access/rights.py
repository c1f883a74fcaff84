"""Rights of producers: sources, types, record keys and routes, as exact texts or prefixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from app.errors import Fault, SenderError
from app.event.memo import Memo
from app.event.validate import clip
from app.model.producer import EVERYTHING, May

Matches = Callable[[str], bool]


class NotAllowed(SenderError):
    """The error 403: the producer is known and may not send this event."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("Not allowed", status=403, code="not-allowed", faults=faults)


def compile_patterns(patterns: Iterable[str]) -> Matches:
    """Return a predicate for texts that match a pattern. A pattern is an exact text, or a prefix
    followed by ``*``.
    """
    exact = frozenset(each for each in patterns if not each.endswith("*"))
    prefixes = tuple(each[:-1] for each in patterns if each.endswith("*"))
    if not prefixes:
        return exact.__contains__
    if not exact:
        return lambda text: text.startswith(prefixes)
    return lambda text: text in exact or text.startswith(prefixes)


class Rights:
    """The rights of a producer, compiled from its setting ``may``.

    Attributes:
        limited: Whether any right is limited.
        limits_events: Whether sources or types are limited.
        limits_keys: Whether record keys are limited.
    """

    __slots__ = (
        "_keys",
        "_producer",
        "_routes",
        "_sources",
        "_types",
        "limited",
        "limits_events",
        "limits_keys",
    )

    def __init__(self, producer: str, may: May) -> None:
        self._producer = producer
        self._routes = compile_patterns(may.routes)
        self._sources = compile_patterns(may.sources)
        self._types = compile_patterns(may.types)
        self._keys = compile_patterns(may.keys)
        self.limits_events = {may.sources, may.types} != {EVERYTHING}
        self.limits_keys = may.keys != EVERYTHING
        self.limited = self.limits_events or self.limits_keys or may.routes != EVERYTHING

    def refusal(self, attributes: Mapping[str, str], named: str | None) -> NotAllowed | None:
        """Return the error for an event before its route is chosen; None if it is allowed.

        Args:
            attributes: The attributes of the event.
            named: The route that the request names; None for none.
        """
        faults = self.faults_of(attributes)
        if named is not None:
            faults += self.faults_of_route(named)
        return NotAllowed(faults) if faults else None

    def demand_route(self, route: str) -> None:
        """Raise NotAllowed if the producer may not use the route that the routing rules chose."""
        if faults := self.faults_of_route(route):
            raise NotAllowed(faults)

    def demand_keys(self, keys: Iterable[bytes | None]) -> None:
        """Raise NotAllowed if the producer may not write a record key, however the key was
        computed.
        """
        if faults := [fault for key in dict.fromkeys(keys) for fault in self.faults_of_key(key)]:
            raise NotAllowed(faults)

    def faults_of_key(self, key: bytes | None) -> list[Fault]:
        """Return a list with the fault of a record key that the producer may not write, or an empty list. A
        missing key is always allowed, because it delays no other event.
        """
        if key is None:
            return []
        text = key.decode("utf-8", "surrogateescape")
        if self._keys(text):
            return []
        shown = clip(key.decode("utf-8", "backslashreplace"))
        detail = f"Producer {self._producer} may not write record key {shown}."
        return [Fault("key-not-allowed", detail, at="key")]

    def faults_of(self, attributes: Mapping[str, str]) -> list[Fault]:
        """Return the faults of an event whose source or type the producer may not send. ``attributes`` has
        the names of version 1.0.

        If source or type cannot be read (a document in an unknown format), the event is allowed only if all
        sources or types are.
        """
        faults = []
        if not self._sources(attributes.get("source", "")):
            faults.append(self._fault("source", attributes.get("source")))
        if not self._types(attributes.get("type", "")):
            faults.append(self._fault("type", attributes.get("type")))
        return faults

    def faults_of_route(self, route: str) -> list[Fault]:
        """Return a list with the fault of a route that the producer may not use, or an empty list."""
        if self._routes(route):
            return []
        detail = f"Producer {self._producer} may not use route {clip(route)}."
        return [Fault("route-not-allowed", detail, at="route")]

    def _fault(self, name: str, value: str | None) -> Fault:
        what = f"an event whose {name} cannot be read" if value is None else f"{name} {clip(value)}"
        detail = f"Producer {self._producer} may not send {what}."
        return Fault(f"{name}-not-allowed", detail, at=name)


class TokenRestriction(msgspec.Struct, frozen=True):
    """The restrictions of an admin token as patterns; None is no restriction.

    Attributes:
        subscriptions: Patterns for names of subscriptions.
        topics: Patterns for a topic's name, or for ``BROKER/NAME``.
        event_sources: Patterns for sources of events that the token publishes.
    """

    subscriptions: tuple[str, ...] | None = None
    topics: tuple[str, ...] | None = None
    event_sources: tuple[str, ...] | None = None

    @property
    def is_bound(self) -> bool:
        """Return True if subscriptions or topics are restricted."""
        return (self.subscriptions, self.topics) != (None, None)

    def subscription(self, name: str) -> bool:
        """Return True if the token permits this subscription."""
        return _fits(self.subscriptions, name)

    def topic(self, broker: str, name: str) -> bool:
        """Return True if the token permits this topic."""
        return _fits(self.topics, name) or _fits(self.topics, f"{broker}/{name}")

    def event_source(self, source: str) -> bool:
        """Return True if the token permits publishing events with this source."""
        return _fits(self.event_sources, source)

    def __str__(self) -> str:
        kinds = (
            ("subscriptions", self.subscriptions),
            ("topics", self.topics),
            ("event_sources", self.event_sources),
        )
        texts = (
            f"{kind} {', '.join(patterns)}" for kind, patterns in kinds if patterns is not None
        )
        return "; ".join(texts)


UNBOUND = TokenRestriction()


_COMPILED: Memo[tuple[str, ...], Matches] = Memo(compile_patterns)


def _fits(patterns: tuple[str, ...] | None, text: str) -> bool:
    return patterns is None or _COMPILED[patterns](text)


class KafkaAccess(msgspec.Struct, frozen=True):
    """The rights of a user on a Kafka listener. Each right is a function that returns True for a permitted
    topic or group."""

    write: Matches
    read: Matches
    groups: Matches
    delete: Matches


def _all(_: str) -> bool:
    return True


EVERY_RIGHT = KafkaAccess(_all, _all, _all, _all)
