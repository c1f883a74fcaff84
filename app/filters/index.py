"""Derive the event types that filters can let pass. ``TypeIndex`` uses these types to find subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType

import msgspec

from app.filters.cesql.nodes import Attribute, Binary, Constant, ExpressionNode, In, Like, Logic
from app.filters.cesql.parser import parse
from app.filters.dialects import dialect_of
from app.filters.model import Filter

_TYPE = "type"
NO_VALUES: Mapping[str, frozenset[str]] = MappingProxyType({})


class Types(msgspec.Struct, frozen=True):
    """The event types that filters can let pass. They are the types in ``exact``, and all types with a prefix
    in ``prefixes``.

    If both are empty, no event passes.
    """

    exact: frozenset[str] = frozenset()
    prefixes: frozenset[str] = frozenset()

    def holds(self, kind: str) -> bool:
        """Return True if an event of this type can pass."""
        return kind in self.exact or kind.startswith(tuple(self.prefixes))


def types_of(filters: Sequence[Filter]) -> Types | None:
    """Return the event types that the filters can let pass, or None for every type.

    The result may contain types of which no event passes, but it has every type of which an event can pass.
    """
    return _each(_both, [_of_filter(one) for one in filters])


def exact_values_of(filters: Sequence[Filter]) -> Mapping[str, frozenset[str]]:
    """Return attributes other than ``type`` for which an event must have one of some exact values to pass.

    SQL expressions are left out, because they compare other values than texts too.
    """
    found: dict[str, frozenset[str]] = {}
    for one in filters:
        for name, values in _exact_values_of(one).items():
            found[name] = found[name] & values if name in found else values
    return found or NO_VALUES


def attributes_of(filters: Sequence[Filter]) -> frozenset[str] | None:
    """Return the attributes that the filters read, or None if an SQL expression may read anything."""
    named: set[str] = set()
    for one in filters:
        dialect, argument = dialect_of(one)
        if dialect == "sql":
            return None
        inner = {"all": argument, "any": argument, "not_": (argument,)}.get(dialect)
        names = frozenset(argument) if inner is None else attributes_of(inner)
        if names is None:
            return None
        named |= names
    return frozenset(named)


def _exact_values_of(one: Filter) -> Mapping[str, frozenset[str]]:
    dialect, argument = dialect_of(one)
    match dialect:
        case "exact":
            return {name: frozenset([text]) for name, text in argument.items() if name != _TYPE}
        case "all":
            return exact_values_of(argument)
        case "any":
            parts = [_exact_values_of(each) for each in argument]
            names = set(parts[0]).intersection(*parts[1:])
            return {name: frozenset[str]().union(*(each[name] for each in parts)) for name in names}
    return NO_VALUES


def _of_filter(one: Filter) -> Types | None:
    dialect, argument = dialect_of(one)
    match dialect:
        case "exact" if _TYPE in argument:
            return Types(exact=frozenset([argument[_TYPE]]))
        case "prefix" if _TYPE in argument:
            return Types(prefixes=frozenset([argument[_TYPE]]))
        case "all":
            return types_of(argument)
        case "any":
            return _each(_either, [_of_filter(each) for each in argument])
        case "sql":
            return _of_node(parse(argument))
    return None


def _each(
    join: Callable[[Types | None, Types | None], Types | None], parts: list[Types | None]
) -> Types | None:
    return reduce(join, parts) if parts else None


def _either(one: Types | None, other: Types | None) -> Types | None:
    if one is None or other is None:
        return None
    return Types(one.exact | other.exact, one.prefixes | other.prefixes)


def _both(one: Types | None, other: Types | None) -> Types | None:
    if one is None or other is None:
        return other if one is None else one
    exact = {each for each in one.exact if other.holds(each)}
    exact |= {each for each in other.exact if one.holds(each)}
    prefixes = {each for each in one.prefixes if each.startswith(tuple(other.prefixes))}
    prefixes |= {each for each in other.prefixes if each.startswith(tuple(one.prefixes))}
    return Types(frozenset(exact), frozenset(prefixes))


def _of_node(node: ExpressionNode) -> Types | None:
    """Return the types for which an SQL expression can be true. An error counts as false in a filter."""
    match node:
        case Binary("=", Attribute("type"), Constant(str(text))):
            return Types(exact=frozenset([text]))
        case In(Attribute("type"), elements, False):
            texts = [each.value for each in elements if isinstance(each, Constant)]
            known = len(texts) == len(elements) and all(isinstance(each, str) for each in texts)
            return Types(exact=frozenset(map(str, texts))) if known else None
        case Like(Attribute("type"), pattern, False):
            return _of_pattern(pattern)
        case Logic(operands, operators):
            return _of_logic([_of_node(each) for each in operands], set(operators))
    return None


def _of_pattern(pattern: str) -> Types | None:
    """Return the types that can match a LIKE pattern: all that begin with the text before the first
    wildcard."""
    head = pattern.partition("%")[0].partition("_")[0]
    return Types(prefixes=frozenset([head])) if head and "\\" not in head else None


def _of_logic(parts: list[Types | None], words: set[str]) -> Types | None:
    if words == {"AND"}:
        return _each(_both, parts)
    return _each(_either, parts) if words == {"OR"} else None
