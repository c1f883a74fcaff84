"""Which events can go where, and come back: filters and topic templates compared without an event.

A filter list is a conjunction of *atoms*, each about one attribute, as far as it can be seen through:
``any``, ``not`` and ``sql`` count as "may match".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from app.model.route import Exchange, Filter, KeyPolicy, Target
from app.routing.templates import placeholders

Node = TypeVar("Node")
Atom = tuple[str, str, str]
"""Dialect, attribute, text."""

_ALWAYS_THERE = {"specversion", "id", "source", "type"}


def atoms(filters: Sequence[Filter]) -> list[Atom]:
    """Those that every event which passes fulfils; there may be more to pass than they say."""
    return [
        (dialect, name, text)
        for one in _conjunction(filters)
        for dialect in ("exact", "prefix", "suffix")
        for name, text in (getattr(one, dialect) or {}).items()
    ]


def _conjunction(filters: Sequence[Filter]) -> Iterator[Filter]:
    """All that must hold, with every ``all`` taken apart."""
    for one in filters:
        if one.all is None:
            yield one
        else:
            yield from _conjunction(one.all)


def _is_opaque(one: Filter) -> bool:
    return one.any is not None or one.not_ is not None or one.sql is not None


class Earlier:
    """Filters of routes in their order, to find the one that leaves nothing to a later one."""

    def __init__(self) -> None:
        self._count = 0
        self._by_exact: dict[Atom, list[tuple[int, list[Atom]]]] = {}
        self._others: list[tuple[int, list[Atom]]] = []

    def add(self, filters: Sequence[Filter]) -> None:
        found = (self._count, atoms(filters))
        self._count += 1
        if any(map(_is_opaque, _conjunction(filters))):
            return
        exact = next((atom for atom in found[1] if atom[0] == "exact"), None)
        if exact is None:
            self._others.append(found)
        else:  # only the very same atom implies it
            self._by_exact.setdefault(exact, []).append(found)

    def shadow_of(self, later: Sequence[Filter]) -> int | None:
        """The first whose filters want every event that ``later`` wants. Errs to none."""
        narrow = atoms(later)
        likely = [each for atom in narrow for each in self._by_exact.get(atom, ())]
        shadows = [
            number
            for number, wide in (*likely, *self._others)
            if all(any(_implies(atom, each) for atom in narrow) for each in wide)
        ]
        return min(shadows, default=None)


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


def feeds(target: Target | Exchange, filters: Sequence[Filter], topic: str) -> bool:
    """Whether the target's topic, or what its template can become, is ``topic``. Where an exchange
    leads is for the broker's bindings to say: anywhere. ``filters``: those of the publisher."""
    if isinstance(target, Exchange):
        return True
    known = {name: text for dialect, name, text in atoms(filters) if dialect == "exact"}
    pattern = "".join(_patterns(target.topic, known))
    return re.fullmatch(pattern, topic) is not None


def may_be_one_topic(one: str, other: str) -> bool:
    """Whether two topics, or what templates can become, may be the same. Errs to yes: only what stands
    before the first and behind the last attribute is compared."""
    (head, tail), (head_2, tail_2) = _ends(one), _ends(other)
    if not placeholders(one) and not placeholders(other):
        return one == other
    heads = head.startswith(head_2) or head_2.startswith(head)
    return heads and (tail.endswith(tail_2) or tail_2.endswith(tail))


def _ends(template: str) -> tuple[str, str]:
    """What is fixed before the first attribute, and behind the last one."""
    return template.partition("{")[0], template.rpartition("}")[2]


def _patterns(template: str, known: dict[str, str]) -> Iterator[str]:
    """An attribute that the filters fix stands for itself, another for anything legal."""
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


def ways_home(
    way: list[Node], nodes: Sequence[Node], may_follow: Callable[[list[Node], Node], bool]
) -> Iterator[list[Node]]:
    """Every way from the last of ``way`` back to its first, with no node twice."""
    for node in nodes:
        if not may_follow(way, node):
            continue
        if node is way[0]:
            yield way
        elif node not in way:
            yield from ways_home([*way, node], nodes, may_follow)
