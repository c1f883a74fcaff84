"""The ways in which producers name attributes in headers: the binding's own first, then others.

A message is read in one spelling only, so that mirrored headers of another cannot contradict it; what
the spelling does not claim stays distinguishable as foreign (I3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from app.bindings.record import Header
from app.event.memo import Memo

Value = TypeVar("Value")

REQUIRED = frozenset({"specversion", "id", "source", "type"})


class Spelling(msgspec.Struct, frozen=True):
    """One way to name attributes in headers.

    ``attribute``  header name to attribute name, valid or not; None for a header it does not claim.
    ``exact``      attribute name to the exact header names; other cases of them count only where no
                   exact one is there.
    ``needs``      the attributes whose presence shows that a message is in this spelling.
    ``claims``     the prefix alone shows that a header is meant as an attribute.
    """

    attribute: Mapping[str, str | None]
    exact: Callable[[str], Sequence[str]]
    needs: frozenset[str] = frozenset({"specversion"})
    claims: bool = True


def spelling(
    attribute: Callable[[str], str | None],
    exact: Callable[[str], Sequence[str]],
    *,
    claims: bool = True,
) -> Spelling:
    """One that claims headers by a prefix is shown by ``specversion``, any other by all four of the
    required attributes.
    """
    names: Memo[str, str | None] = Memo(attribute)
    return Spelling(names, exact, frozenset({"specversion"}) if claims else REQUIRED, claims)


def prefixed(prefix: str, *, any_case: bool) -> Callable[[str], str | None]:
    """Header names under a prefix in lower case."""

    def attribute(header: str) -> str | None:
        name = header.lower() if any_case else header
        return name[len(prefix) :] if name.startswith(prefix) else None

    return attribute


def in_use(spellings: Sequence[Spelling], headers: Iterable[str]) -> Spelling | None:
    """The first spelling in which a message is complete enough to be read; None without one."""
    names = tuple(headers)
    for candidate in spellings:
        if candidate.needs <= {candidate.attribute[name] for name in names}:
            return candidate
    return None


def begun(spellings: Sequence[Spelling], headers: Iterable[str]) -> Spelling | None:
    """The first spelling that claims any header: an event, but one without its version."""
    names = tuple(headers)
    for candidate in spellings:
        if candidate.claims and any(candidate.attribute[name] is not None for name in names):
            return candidate
    return None


def select(
    chosen: Spelling, headers: Iterable[tuple[str, Value | None]]
) -> list[tuple[str, str, Value]]:
    """Header name, attribute name and value of each attribute that has a value (null is unset)."""
    found = [
        (header, name, value)
        for header, value in headers
        if value is not None and (name := chosen.attribute[header]) is not None
    ]
    exact = {name for header, name, _ in found if header in chosen.exact(name)}
    return [
        (header, name, value)
        for header, name, value in found
        if name not in exact or header in chosen.exact(name)
    ]


def unclaimed(chosen: Spelling | None, headers: Sequence[Header]) -> tuple[Header, ...]:
    """The headers that the spelling of a message does not claim; all of them where it has none."""
    if chosen is None:
        return tuple(headers)
    return tuple((name, value) for name, value in headers if chosen.attribute[name] is None)
