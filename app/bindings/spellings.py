"""The ways in which producers name attributes in headers: the binding's own first, then others.

A message is read in one spelling only, so that mirrored headers of another cannot contradict it; what
the spelling does not claim stays distinguishable as foreign (I3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from app.event.memo import Memo
from app.event.types import is_name
from app.event.versions import VERSIONS, Version

Value = TypeVar("Value")

REQUIRED = frozenset({"specversion", "id", "source", "type"})

_NESTED = next(version for version in VERSIONS.values() if version.nested)  # 0.1 alone
_AS_NESTED = {own.lower(): own for own in _NESTED.rules}


class Spelling(msgspec.Struct, frozen=True):
    """One way to name attributes in headers.

    ``attribute``  header name to attribute name, valid or not; None for a header it does not claim.
    ``exact``      attribute name to the exact header names; other cases of them count only where no
                   exact one is there.
    ``needs``      the attributes whose presence shows that a message is in this spelling.
    ``claims``     the prefix alone shows that a header is meant as an attribute.
    ``nested``     the spelling of 0.1, which tells its extensions by the case they are in.
    """

    attribute: Mapping[str, str | None]
    exact: Callable[[str], Sequence[str]]
    needs: frozenset[str] = frozenset({"specversion"})
    claims: bool = True
    nested: bool = False


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


def bare(*, any_case: bool) -> Spelling:
    """Attribute names as they are. They claim nothing: what cannot be an attribute is foreign."""

    def attribute(header: str) -> str | None:
        name = header.lower() if any_case else header
        return name if is_name(name) else None

    return spelling(attribute, lambda name: (name,), claims=False)


def nested(
    prefixes: Sequence[str],
    *,
    any_case: bool,
    others: Mapping[str, str] | None = None,
    apart: str | None = None,
    capitals: bool = False,
) -> Spelling:
    """That of 0.1: ``CE-EventID``, ``CE-X-Name``; shown by ``CE-CloudEventsVersion``.

    ``others``  further names of core attributes in lower case, to their own names.
    ``apart``   a header under the prefix, in lower case, that is no attribute.
    ``capitals``  extensions have a capital in headers, and none in their names.
    """
    known = {**_AS_NESTED, **(others or {})}

    def entry(name: str, letter: Callable[[str], str]) -> str:
        """A name, or that of an extension with its first letter changed."""
        if not capitals or name[:2].lower() != "x-":
            return name
        return f"{name[:2]}{letter(name[2:3])}{name[3:]}"

    def attribute(header: str) -> str | None:
        start = header.lower() if any_case else header
        for prefix in prefixes:
            if start.startswith(prefix.lower() if any_case else prefix) and start.lower() != apart:
                name = entry(header[len(prefix) :], str.lower)
                return known.get(name.lower(), name)
        return None

    names: Memo[str, str | None] = Memo(attribute)
    return Spelling(
        names,
        lambda name: (nested_name(prefixes[0], entry(name, str.upper)),),
        frozenset({_NESTED.attribute}),
        claims=False,
        nested=True,
    )


def nested_name(prefix: str, name: str) -> str:
    """The header of a core attribute or an ``x-`` entry of 0.1: a capital first."""
    return f"{prefix}{name[:1].upper()}{name[1:]}"


def prefix_of(version: Version, usual: str) -> str:
    """What a binding that capitalises nothing writes before names: 0.1 has its own, of HTTP."""
    return "CE-" if version.nested else usual


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
    if chosen.nested:
        return found
    exact = {name for header, name, _ in found if header in chosen.exact(name)}
    return [
        (header, name, value)
        for header, name, value in found
        if name not in exact or header in chosen.exact(name)
    ]
