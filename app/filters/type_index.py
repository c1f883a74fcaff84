"""Find the subscriptions that may want an event of a type, or with the value of an attribute. The search does not
evaluate the filters of each subscription."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from app.event.memo import LENGTH
from app.filters.index import Types

T = TypeVar("T")
REMEMBERED = 1_024
"""The maximum number of types whose results are cached. Results for long types are not cached."""

Members = dict[T, None]  # in order of addition
Bucket = tuple[T] | Members[T]
"""The members of one text. A single member needs a fifth of the memory of a dict."""


class TypeIndex(Generic[T]):
    """An index of members, such as subscriptions, by the event types that they may want. A look-up takes the
    same time for any number of members.

    Attributes:
        anything: Members that may want events of every type.
    """

    def __init__(self) -> None:
        self.anything: Members[T] = {}
        self._exact: dict[str, Bucket[T]] = {}
        self._prefixes: dict[int, dict[str, Bucket[T]]] = {}  # by length of the prefix
        self._known: dict[str, tuple[T, ...]] = {}

    def add(self, member: T, types: Types | None) -> None:
        """Add a member with the event types that it may want, as ``types_of`` returns them. None means every
        type."""
        if types is None:
            self.anything[member] = None
            return
        self._known.clear()
        for text in types.exact:
            _put(self._exact, text, member)
        for text in types.prefixes:
            _put(self._prefixes.setdefault(len(text), {}), text, member)

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

    def size(self, kind: str) -> int:
        """Return the number of members that want exactly this type."""
        return len(self._exact.get(kind, ()))

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
        found = dict.fromkeys(self._exact.get(kind, ()))
        for length, by_text in self._prefixes.items():
            found.update(dict.fromkeys(by_text.get(kind[:length], ())))
        return tuple(found)


class FilterIndex(Generic[T]):
    """An index of members by the types, or by the exact values of another attribute, that they may want.

    Each member is found by one attribute: the one whose values have the fewest members when it is added. So members
    that want the same type of different customers are found by the customer.

    Attributes:
        by_type: The members that are found by type, or for every event.
    """

    def __init__(self) -> None:
        self.by_type: TypeIndex[T] = TypeIndex()
        self._exact: dict[str, dict[str, Bucket[T]]] = {}
        self._found_by: dict[T, str] = {}  # the attribute of members that are not found by type

    @property
    def knows_types_only(self) -> bool:
        """Return True if the type of an event is enough to find all members."""
        return not self._exact

    def add(self, member: T, types: Types | None, exact: Mapping[str, frozenset[str]]) -> None:
        """Add a member with the types and values that it may want, as ``types_of`` and ``exact_values_of`` return
        them."""
        name = min(exact, key=lambda each: self._size(each, exact[each]), default=None)
        if name is None or self._suffices(types, self._size(name, exact[name])):
            self.by_type.add(member, types)
            return
        self._found_by[member] = name
        for text in exact[name]:
            _put(self._exact.setdefault(name, {}), text, member)

    def remove(self, member: T, types: Types | None, exact: Mapping[str, frozenset[str]]) -> None:
        """Remove a member. The arguments must be the same as in the call of ``add``."""
        name = self._found_by.pop(member, None)
        if name is None:
            self.by_type.remove(member, types)
            return
        for text in exact[name]:
            _take_out(self._exact[name], text, member)
        if not self._exact.get(name, True):
            del self._exact[name]

    def of(self, attributes: Mapping[str, str]) -> list[T]:
        """Return the members that may want an event with these attributes, without repetitions."""
        found = [*self.by_type.of(attributes.get("type", "")), *self.by_type.anything]
        for name, by_text in self._exact.items():
            found += by_text.get(attributes.get(name, ""), ())
        return found

    def _size(self, name: str, texts: frozenset[str]) -> int:
        """Return the largest number of members that an event with one of these values would find."""
        by_text = self._exact.get(name, {})
        return max((len(by_text.get(text, ())) for text in texts), default=0)

    def _suffices(self, types: Types | None, others: int) -> bool:
        """Return True if the type finds no more members than the other attribute, which finds ``others``."""
        if types is None or types.prefixes:
            return False
        return max(map(self.by_type.size, types.exact), default=0) <= others


def _put(by_text: dict[str, Bucket[T]], text: str, member: T) -> None:
    members = by_text.get(text)
    if members is None:
        by_text[text] = (member,)
    elif isinstance(members, tuple):
        by_text[text] = {members[0]: None, member: None}
    else:
        members[member] = None


def _take_out(by_text: dict[str, Bucket[T]], text: str, member: T) -> None:
    members = by_text[text]
    if isinstance(members, tuple):
        del by_text[text]
        return
    del members[member]
    if not members:
        del by_text[text]
