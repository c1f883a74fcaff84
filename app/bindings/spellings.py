"""The naming schemes by which producers name attributes in headers: the binding's own scheme first, then others.

A message is read by one scheme only, so that copies of the attributes under other names cannot contradict its
attributes. Headers that do not belong to the chosen scheme are foreign.
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

_NESTED = next(version for version in VERSIONS.values() if version.nested)  # version 0.1 alone
_AS_NESTED = {own.lower(): own for own in _NESTED.rules}


class NamingScheme(msgspec.Struct, frozen=True):
    """A scheme that names attributes in headers.

    Attributes:
        attribute: Map a header name to an attribute name, valid or not, or to None if the header is no
            attribute.
        exact: Map an attribute name to its exact header names. Other cases count only if no exact name is
            present.
        needs: The attributes whose presence shows that a message uses this scheme.
        claims: True if the prefix alone shows that a header is meant as an attribute.
        nested: True for version 0.1, which distinguishes extension names by case.
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
) -> NamingScheme:
    """Return a naming scheme.

    Args:
        attribute: Map a header name to an attribute name, or to None.
        exact: Map an attribute name to its exact header names.
        claims: True if the prefix alone shows that a header is meant as an attribute. The attribute
            ``specversion`` then shows that a message uses the scheme. Otherwise all four required attributes
            must be present.
    """
    names: Memo[str, str | None] = Memo(attribute)
    return NamingScheme(names, exact, frozenset({"specversion"}) if claims else REQUIRED, claims)


def prefixed(prefix: str, *, any_case: bool) -> Callable[[str], str | None]:
    """Return a function that maps header names under ``prefix`` to attribute names."""

    def attribute(header: str) -> str | None:
        name = header.lower() if any_case else header
        return name[len(prefix) :] if name.startswith(prefix) else None

    return attribute


def bare(*, any_case: bool) -> NamingScheme:
    """Return the naming scheme without prefix, in which header names are attribute names. Header names that
    are not valid attribute names are foreign.
    """

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
) -> NamingScheme:
    """Return the naming scheme of version 0.1: names such as ``CE-EventID`` and ``CE-X-Name``. The header
    ``CE-CloudEventsVersion`` shows that a message uses it.

    Args:
        prefixes: The prefixes that are read. The first one is written.
        any_case: True if a prefix may be in any case.
        others: Further names of core attributes, in lower case, with the names they have in 0.1.
        apart: A header under the prefix that is no attribute, in lower case.
        capitals: True if extension names begin with a capital in headers.
    """
    known = {**_AS_NESTED, **(others or {})}

    def entry(name: str, letter: Callable[[str], str]) -> str:
        """Apply ``letter`` to the first letter of an extension name. Do nothing if extension names in headers
        do not begin with a capital.
        """
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
    return NamingScheme(
        names,
        lambda name: (nested_name(prefixes[0], entry(name, str.upper)),),
        frozenset({_NESTED.attribute}),
        claims=False,
        nested=True,
    )


def nested_name(prefix: str, name: str) -> str:
    """Return the header name of a core attribute or an ``x-`` extension of version 0.1. It is the prefix,
    followed by the name with a capital letter."""
    return f"{prefix}{name[:1].upper()}{name[1:]}"


def prefix_of(version: Version, usual: str) -> str:
    """Return the header prefix for a version. It is ``usual``, except for version 0.1, which has the prefix
    of HTTP."""
    return "CE-" if version.nested else usual


def first_complete(
    spellings: Sequence[NamingScheme], headers: Iterable[str]
) -> NamingScheme | None:
    """Return the first naming scheme of which the message has all needed attributes, or None."""
    names = tuple(headers)
    for candidate in spellings:
        if candidate.needs <= {candidate.attribute[name] for name in names}:
            return candidate
    return None


def first_claiming(
    spellings: Sequence[NamingScheme], headers: Iterable[str]
) -> NamingScheme | None:
    """Return the first naming scheme whose prefix any header has, or None. The message lacks the attributes
    that the scheme needs, so its version is unknown."""
    names = tuple(headers)
    for candidate in spellings:
        if candidate.claims and any(candidate.attribute[name] is not None for name in names):
            return candidate
    return None


def select(
    chosen: NamingScheme, headers: Iterable[tuple[str, Value | None]]
) -> list[tuple[str, str, Value]]:
    """Return header name, attribute name and value of each header that is an attribute in this naming scheme.
    Null values are left out.
    """
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
