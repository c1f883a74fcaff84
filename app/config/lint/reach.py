"""Which events can go where, and come back: filters and topic templates compared without an event.

A filter list is a conjunction of *atoms*, each about one attribute, as far as it can be seen through:
``any``, ``not`` and ``sql`` count as "may match".
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from app.model.route import Exchange, Filter, KeyPolicy, Target
from app.routing.templates import placeholders

Node = TypeVar("Node")
Atom = tuple[str, str, str]
"""Dialect, attribute, text."""
STEPS = (
    5_000  # of a search for a circle: where nodes feed each other, ways are as many as their orders
)

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
    if not placeholders(target.topic):
        return target.topic == topic
    known = {name: text for dialect, name, text in atoms(filters) if dialect == "exact"}
    return re.fullmatch(_pattern(target.topic, known), topic) is not None


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


def _pattern(template: str, known: dict[str, str]) -> str:
    """An attribute that the filters fix stands for itself, another for anything legal. In linear time: each text
    between two attributes is taken where it fits first, and never looked for again, which is enough."""
    head, *rest = _parts(template, known)
    if not rest:
        return re.escape(head)
    atoms_between = "".join(f"(?>{_wild(n)}?{re.escape(text)})" for n, text in rest[:-1])
    count, tail = rest[-1]
    return f"{re.escape(head)}{atoms_between}{_wild(count)}{re.escape(tail)}"


def _wild(count: int) -> str:
    return f"[a-zA-Z0-9._-]{{{count},}}"


def _parts(template: str, known: dict[str, str]) -> tuple[str, *tuple[tuple[int, str], ...]]:
    """The text before the first attribute that may be anything; then, how many of them stand side by side and the
    text behind them."""
    head, rest = "", list[tuple[int, str]]()
    for literal, name in re.findall(r"([^{]+)|\{([^}]*)\}", template):
        text = literal or known.get(name)
        if text is None:
            side_by_side = bool(rest) and not rest[-1][1]
            rest.append((1 + rest.pop()[0] if side_by_side else 1, ""))
        elif rest:
            rest[-1] = (rest[-1][0], rest[-1][1] + text)
        else:
            head += text
    return head, *rest


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


class Ways(Generic[Node]):
    """Ways of events between ``nodes`` that feed each other. ``leads``: whether one feeds another."""

    def __init__(self, nodes: Sequence[Node], leads: Callable[[Node, Node], bool]) -> None:
        self._nodes = nodes
        self._leads = leads
        self._following: dict[int, list[int]] = {}

    def home(
        self, start: int, may_follow: Callable[[list[Node], Node], bool] = lambda _way, _node: True
    ) -> Iterator[list[Node]]:
        """The ways from a node, by its number, back to itself, with no node twice, the shortest first; none after
        ``STEPS``. ``may_follow``: whether a node may, behind all of a way."""
        loop = self._loop(start)
        ahead, left = deque([[start]]), STEPS
        while ahead and left > 0:
            way = ahead.popleft()
            found = [self._nodes[each] for each in way]
            for number in self._after(way[-1]):
                left -= 1
                if number not in loop or number in way[1:]:
                    continue
                if may_follow(found, self._nodes[number]):
                    if number == start:
                        yield found
                    else:
                        ahead.append([*way, number])

    def _after(self, number: int) -> list[int]:
        found = self._following.get(number)
        if found is None:
            node = self._nodes[number]
            found = [n for n, each in enumerate(self._nodes) if self._leads(node, each)]
            self._following[number] = found
        return found

    def _loop(self, start: int) -> set[int]:
        """The nodes that a way from the start and back may pass: the others lead nowhere."""
        before: dict[int, list[int]] = {start: []}
        ahead = [start]
        while ahead:
            number = ahead.pop()
            for each in self._after(number):
                if each not in before:
                    before[each] = []
                    ahead.append(each)
                before[each].append(number)
        found, ahead = {start}, [start]
        while ahead:
            for each in before[ahead.pop()]:
                if each not in found:
                    found.add(each)
                    ahead.append(each)
        return found
