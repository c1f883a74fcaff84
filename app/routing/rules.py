"""The routes in force, in order. The first route whose filters match takes the event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from app.bindings.run import EventColumns
from app.errors import Fault, SenderError
from app.event.memo import LENGTH
from app.event.validate import clip
from app.event.value import CloudEvent
from app.filters.cesql.expression import Failed
from app.filters.dialects import Predicate, compile_filters
from app.filters.index import attributes_of, types_of
from app.filters.type_index import REMEMBERED, TypeIndex
from app.model.route import Route

T = TypeVar("T")
FEW = 8
"""The most routes whose filters are all evaluated. Above it, an index by event type selects routes first."""


class NoRoute(SenderError):
    """The error for an event that matches no route (422)."""

    def __init__(self, event: CloudEvent, named: str = "") -> None:
        """Create the error.

        Args:
            event: The event.
            named: The route of the request, if only that route was asked.
        """
        kind = event.attributes.get("type")
        what = (
            "a document in a format that Skybridge cannot read"
            if kind is None
            else f"this event of type {clip(kind)}"
        )
        route = f"Route {named} does not match" if named else "No route matches"
        fault = Fault("no-route", f"{route} {what}.", at="type")
        super().__init__("No route", status=422, code="no-route", faults=[fault])


class UnknownRoute(SenderError):
    """The error for a request that names a route that does not exist (404)."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no route {name[:127]!r}", status=404, code="unknown-route")


class Rules(Generic[T]):
    """The routes in order, each compiled to a value of the caller's choice.

    ``read`` has the attributes that decide which route takes an event, or is None if any attribute may decide.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        compiled: Callable[[Route, str], T],
        failed: Callable[[str], Failed] | None = None,
    ) -> None:
        """Compile the routes.

        Args:
            routes: The routes, in order.
            compiled: Compile a route; the second argument is the name of its setting.
            failed: Return the function that is called for failed filter expressions of the route with this
                name.
        """
        made = [compiled(route, f"routes[{n}]") for n, route in enumerate(routes)]
        predicates = [
            compile_filters(route.filters, failed(route.name) if failed else None)
            for route in routes
        ]
        self._ordered: tuple[tuple[Predicate, T], ...] = tuple(zip(predicates, made, strict=True))
        self._named: Mapping[str, tuple[Predicate, T]] = {
            route.name: each for route, each in zip(routes, self._ordered, strict=True)
        }
        self._index: TypeIndex[int] = TypeIndex()
        for n, route in enumerate(routes):
            self._index.add(n, types_of(route.filters))
        read = [attributes_of(route.filters) for route in routes]
        self.read = None if None in read else frozenset[str]().union(*filter(None, read))
        self._by_type: dict[str | None, tuple[tuple[Predicate, T], ...]] = {}

    def first(self, event: CloudEvent) -> T:
        """Return the compiled value of the first matching route. Raises NoRoute."""
        ordered = self._ordered
        if len(ordered) > FEW:
            kind = event.attributes.get("type")
            known = self._by_type.get(kind)
            ordered = self._of_type(kind) if known is None else known
        for wants, made in ordered:
            if wants(event):
                return made
        raise NoRoute(event)

    def first_of_all(self, run: EventColumns) -> T | None:
        """Return the compiled value of the route that all events of a batch take, or None if the route may differ
        between events.

        Raises NoRoute if no route matches.
        """
        if self.read is None or not run.has_one(self.read):
            return None
        return self.first(run[0].event)

    def named(self, name: str, event: CloudEvent | None = None) -> T:
        """Return the compiled value of the route with this name.

        Its filters are evaluated only if ``event`` is given, for a producer with limited rights. Raises
        UnknownRoute or NoRoute.
        """
        found = self._named.get(name)
        if found is None:
            raise UnknownRoute(name)
        wants, made = found
        if event is not None and not wants(event):
            raise NoRoute(event, name)
        return made

    def _of_type(self, kind: str | None) -> tuple[tuple[Predicate, T], ...]:
        """Return the routes that may want events of a type, in order. An event without a type matches no filter on
        the type."""
        found = [*self._index.anything, *(() if kind is None else self._index.of(kind))]
        ordered = tuple([self._ordered[n] for n in sorted(found)])
        if kind is None or len(kind) <= LENGTH:
            if len(self._by_type) >= REMEMBERED:
                self._by_type.clear()
            self._by_type[kind] = ordered
        return ordered

    def __bool__(self) -> bool:
        """Return True if there is any route."""
        return bool(self._ordered)

    def __iter__(self) -> Iterator[T]:
        """Return an iterator over the compiled values of all routes."""
        return (made for _, made in self._ordered)
