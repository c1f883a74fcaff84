"""Compare filters and topic templates without an event: which events can reach a topic, and which
can loop.

A list of filters is analysed as conditions on single attributes (*atoms*), which must all be met.
Filters of the dialects ``any``, ``not`` and ``sql`` are not analysed: they are assumed to match any
event.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from app.event.templates import Placeholder, parse
from app.event.versions import NEWEST, VERSIONS
from app.model.route import Exchange, Filter, KeyPolicy, Route, Target
from app.model.subscription import Subscription
from app.routing.templates import demanded, placeholders

Node = TypeVar("Node")
Atom = tuple[str, str, str]
"""A condition on one attribute: the dialect (exact, prefix or suffix), the attribute, and the text.
"""
STEPS = 5_000  # of one search: the number of paths grows with the factorial of the nodes

_ALWAYS_THERE = {"specversion", "id", "source", "type"}
_CORE = VERSIONS[NEWEST].rules.keys()


def atoms(filters: Sequence[Filter]) -> list[Atom]:
    """Return the atoms that every event meets which passes the filters. The filters may demand
    more.
    """
    return [
        (dialect, name, text)
        for one in _conjunction(filters)
        for dialect in ("exact", "prefix", "suffix")
        for name, text in (getattr(one, dialect) or {}).items()
    ]


def _conjunction(filters: Sequence[Filter]) -> Iterator[Filter]:
    """Yield all filters that must match, with every ``all`` replaced by its members."""
    for one in filters:
        if one.all is None:
            yield one
        else:
            yield from _conjunction(one.all)


def _is_opaque(one: Filter) -> bool:
    """Return True if the filter has a dialect that is not analysed."""
    return one.any is not None or one.not_ is not None or one.sql is not None


class EarlierRoutes:
    """The filters of earlier routes, to find one that matches every event of a later route."""

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
        else:  # only the same atom implies an exact one
            self._by_exact.setdefault(exact, []).append(found)

    def shadow_of(self, later: Sequence[Filter]) -> int | None:
        """Return the index of the first earlier route that certainly matches every event that
        passes the filters ``later``. Return None if there is none.
        """
        narrow = atoms(later)
        likely = [each for atom in narrow for each in self._by_exact.get(atom, ())]
        shadows = [
            number
            for number, wide in (*likely, *self._others)
            if all(any(_implies(atom, each) for atom in narrow) for each in wide)
        ]
        return min(shadows, default=None)


def may_both_match(one: Sequence[Filter], other: Sequence[Filter]) -> bool:
    """Return True if some event may pass both lists of filters. Return False only if this is
    impossible.
    """
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
    """Return True if the target may publish to ``topic``.

    For a template, return True if it can produce the topic for an event that passes ``filters``,
    the filters of the publisher. For an exchange, always return True, because the bindings on the
    broker decide.
    """
    if isinstance(target, Exchange):
        return True
    if not placeholders(target.topic):
        return target.topic == topic
    known = {name: text for dialect, name, text in atoms(filters) if dialect == "exact"}
    return re.fullmatch(_pattern(target.topic, known), topic) is not None


def writing_routes(routes: Sequence[Route], subscription: Subscription, topic: str) -> list[Route]:
    """Return the routes that may write to a topic of the subscription. The filters of the
    subscription are not considered.
    """
    broker = subscription.source.broker
    return [
        route
        for route in routes
        if any(
            target.broker == broker and feeds(target, route.filters, topic) for target in route.to
        )
    ]


def may_be_one_topic(one: str, other: str) -> bool:
    """Return True if two topics, or the results of two templates, may be equal. Return False only
    if this is impossible.

    Only the text before the first and after the last placeholder is compared.
    """
    (head, tail), (head_2, tail_2) = _ends(one), _ends(other)
    if not placeholders(one) and not placeholders(other):
        return one == other
    heads = head.startswith(head_2) or head_2.startswith(head)
    return heads and (tail.endswith(tail_2) or tail_2.endswith(tail))


def _ends(template: str) -> tuple[str, str]:
    """Return the fixed text before the first placeholder and after the last one."""
    return template.partition("{")[0], template.rpartition("}")[2]


def _pattern(template: str, known: dict[str, str]) -> str:
    """Return a regular expression for the topics that a template can produce.

    An attribute whose value the filters fix is literal text in the expression. Any other attribute
    matches all characters that a topic may have. Matching takes linear time, because each text
    between two attributes is searched only at its first place, which is enough.
    """
    head, *rest = _parts(template, known)
    if not rest:
        return re.escape(head)
    atoms_between = "".join(f"(?>{_wild(n)}?{re.escape(text)})" for n, text in rest[:-1])
    count, tail = rest[-1]
    return f"{re.escape(head)}{atoms_between}{_wild(count)}{re.escape(tail)}"


def _wild(count: int) -> str:
    return f"[a-zA-Z0-9._-]{{{count},}}"


def _parts(template: str, known: dict[str, str]) -> tuple[str, *tuple[tuple[int, str], ...]]:
    """Return the parts of a template. The first is the text before the first free attribute, whose
    value is not fixed. Each further part is the fewest characters of free attributes in a row, with the text
    after them.
    """
    head, rest = "", list[tuple[int, str]]()
    for part in parse(template):
        text = part if isinstance(part, str) else known.get(part.name, part)
        if isinstance(text, Placeholder):
            side_by_side = bool(rest) and not rest[-1][1]
            fewest = rest.pop()[0] if side_by_side else 0
            rest.append((fewest + _has_text(text), ""))
        elif rest:
            rest[-1] = (rest[-1][0], rest[-1][1] + text)
        else:
            head += text
    return head, *rest


def _has_text(placeholder: Placeholder) -> bool:
    """Return True if the value of a placeholder is never empty: no attribute of the core is."""
    return placeholder.name in _CORE and placeholder.default != ""


def may_have_no_key(policy: KeyPolicy) -> bool:
    """Return True if an event of the route may be published without a key."""
    if policy.missing == "reject":
        return False
    match policy.mapper:
        case "attribute":
            return policy.attribute not in _ALWAYS_THERE
        case "template":
            return not set(demanded(policy.template or "")) <= _ALWAYS_THERE
        case "hash":
            return not set(policy.attributes or ()) & _ALWAYS_THERE
        case _:
            return True


class FlowGraph(Generic[Node]):
    """A directed graph of ``nodes``. There is an edge from one node to another if ``leads`` returns
    True for the two.
    """

    def __init__(self, nodes: Sequence[Node], leads: Callable[[Node, Node], bool]) -> None:
        self._nodes = nodes
        self._leads = leads
        self._following: dict[int, list[int]] = {}

    def cycles_from(
        self, start: int, may_follow: Callable[[list[Node], Node], bool] = lambda _way, _node: True
    ) -> Iterator[list[Node]]:
        """Yield the cycles from the node ``start`` back to itself, the shortest first.

        No node comes twice in a cycle. The search ends after ``STEPS`` steps. ``may_follow``
        decides whether a node may follow all nodes of a path.
        """
        loop = self._loop(start)
        ahead, left = deque([[start]]), STEPS
        while ahead and left > 0:
            path = ahead.popleft()
            found = [self._nodes[each] for each in path]
            for number in self._after(path[-1]):
                left -= 1
                if number not in loop or number in path[1:]:
                    continue
                if may_follow(found, self._nodes[number]):
                    if number == start:
                        yield found
                    else:
                        ahead.append([*path, number])

    def _after(self, number: int) -> list[int]:
        found = self._following.get(number)
        if found is None:
            node = self._nodes[number]
            found = [n for n, each in enumerate(self._nodes) if self._leads(node, each)]
            self._following[number] = found
        return found

    def _loop(self, start: int) -> set[int]:
        """Return the nodes that can be part of a cycle through ``start``."""
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
