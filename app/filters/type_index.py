"""Find the subscriptions that may want an event of a type. The search does not evaluate the filters of each
subscription."""

from __future__ import annotations

from typing import Generic, TypeVar

from app.event.memo import LENGTH
from app.filters.index import Types

T = TypeVar("T")
REMEMBERED = 1_024
"""The maximum number of types whose results are cached. Results for long types are not cached."""

Members = dict[T, None]  # in order of addition


class TypeIndex(Generic[T]):
    """An index of members, such as subscriptions, by the event types that they may want. A look-up takes the
    same time for any number of members.

    Attributes:
        anything: Members that may want events of every type.
    """

    def __init__(self) -> None:
        self.anything: Members[T] = {}
        self._exact: dict[str, Members[T]] = {}
        self._prefixes: dict[int, dict[str, Members[T]]] = {}  # by length of the prefix
        self._known: dict[str, tuple[T, ...]] = {}

    def add(self, member: T, types: Types | None) -> None:
        """Add a member with the event types that it may want, as ``types_of`` returns them. None means every
        type."""
        if types is None:
            self.anything[member] = None
            return
        self._known.clear()
        for text in types.exact:
            self._exact.setdefault(text, {})[member] = None
        for text in types.prefixes:
            self._prefixes.setdefault(len(text), {}).setdefault(text, {})[member] = None

    def remove(self, member: T, types: Types | None) -> None:
        """Remove a member. ``types`` must be the same as in the call of ``add``."""
        if types is None:
            del self.anything[member]
            return
        self._known.clear()
        for text in types.exact:
            _take_out(self._exact, text, member)
        for text in types.prefixes:
            same_length = self._prefixes[len(text)]
            _take_out(same_length, text, member)
            if not same_length:
                del self._prefixes[len(text)]

    def of(self, kind: str) -> tuple[T, ...]:
        """Return the members that may want events of this type, without repetitions. Members in ``anything``
        are not included."""
        found = self._known.get(kind)
        if found is None:
            found = self._find(kind)
            if len(kind) <= LENGTH:
                if len(self._known) >= REMEMBERED:
                    self._known.clear()
                self._known[kind] = found
        return found

    def _find(self, kind: str) -> tuple[T, ...]:
        found = dict(self._exact.get(kind, {}))
        for length, by_text in self._prefixes.items():
            found.update(by_text.get(kind[:length], {}))
        return tuple(found)


def _take_out(by_text: dict[str, Members[T]], text: str, member: T) -> None:
    members = by_text[text]
    del members[member]
    if not members:
        del by_text[text]
