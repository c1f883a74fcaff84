"""Which events can go where: filters and topic templates compared without an event.

A filter list is a conjunction of *atoms*, each about one attribute. That is all there is until filters
know ``any``, ``not`` and ``sql``; these will then count as "may match".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from app.model.route import Filter, KeyPolicy, Route, Target
from app.routing.templates import placeholders

Atom = tuple[str, str, str]
"""Dialect, attribute, text."""

_ALWAYS_THERE = {"specversion", "id", "source", "type"}


def atoms(filters: Sequence[Filter]) -> list[Atom]:
    return [
        (dialect, name, text)
        for one in filters
        for dialect in ("exact", "prefix", "suffix")
        for name, text in (getattr(one, dialect) or {}).items()
    ]


def shadows(earlier: Sequence[Filter], later: Sequence[Filter]) -> bool:
    """Whether every event that ``later`` wants is wanted by ``earlier`` already."""
    narrow = atoms(later)
    return all(any(_implies(atom, wide) for atom in narrow) for wide in atoms(earlier))


def may_both_match(one: Sequence[Filter], other: Sequence[Filter]) -> bool:
    """Whether some event may pass both. Errs to yes."""
    return not any(_exclude(a, b) for a in atoms(one) for b in atoms(other))


def _implies(narrow: Atom, wide: Atom) -> bool:
    (kind, name, text), (wanted, attribute, part) = narrow, wide
    return name == attribute and kind in {"exact", wanted} and _passes(text, wanted, part)


def _passes(text: str, dialect: str, part: str) -> bool:
    match dialect:
        case "prefix":
            return text.startswith(part)
        case "suffix":
            return text.endswith(part)
        case _:
            return text == part


def _exclude(one: Atom, other: Atom) -> bool:
    (kind, name, text), (kind_2, name_2, text_2) = one, other
    if name != name_2:
        return False
    if kind == "exact":
        return not _passes(text, kind_2, text_2)
    if kind_2 == "exact":
        return not _passes(text_2, kind, text)
    if kind != kind_2:
        return False
    return not (_passes(text, kind, text_2) or _passes(text_2, kind, text))


def feeds(target: Target, route: Route, topic: str) -> bool:
    """Whether the target's topic, or what its template can become, is ``topic``."""
    known = {name: text for dialect, name, text in atoms(route.filters) if dialect == "exact"}
    pattern = "".join(_patterns(target.topic, known))
    return re.fullmatch(pattern, topic) is not None


def _patterns(template: str, known: dict[str, str]) -> Iterator[str]:
    """An attribute that the route's filters fix stands for itself, another for anything legal."""
    for literal, name in re.findall(r"([^{]+)|\{([^}]*)\}", template):
        yield re.escape(literal or known[name]) if literal or name in known else "[a-zA-Z0-9._-]+"


def may_have_no_key(policy: KeyPolicy) -> bool:
    """Whether an event of the route may go without a key."""
    if policy.missing == "reject":
        return False
    match policy.mapper:
        case "attribute":
            return policy.attribute not in _ALWAYS_THERE
        case "template":
            return not set(placeholders(policy.template or "")) <= _ALWAYS_THERE
        case "hash":
            return not set(policy.attributes or ()) & _ALWAYS_THERE
        case _:
            return True
