"""SQL as text: the few words of it that the native way is made of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

Columns = Mapping[str, str]
"""Column names to their expressions."""

TEXTS: Final = "MAP<STRING, STRING>"

_WHOLE = r"\A(?:{})\z"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literals(texts: Iterable[str]) -> str:
    return ", ".join(map(literal, texts))


def matches(column: str, pattern: str) -> str:
    """Whether all of a text is of a pattern. Java's ``$`` would let a line break follow."""
    return f"{column} RLIKE {literal(_WHOLE.format(pattern))}"


def found(column: str, pattern: str) -> str:
    """Whether a text holds a pattern."""
    return f"{column} RLIKE {literal(pattern)}"


def choice(column: str, choices: Mapping[str, str], otherwise: str) -> str:
    """By the value of a column, one of several expressions; those that are alike are asked for once."""
    same: dict[str, list[str]] = {}
    for value, expression in choices.items():
        if expression != otherwise:
            same.setdefault(expression, []).append(value)
    if not same:
        return otherwise
    cases = " ".join(
        f"WHEN {column} IN ({literals(values)}) THEN {expression}"
        for expression, values in same.items()
    )
    return f"CASE {cases} ELSE {otherwise} END"


def at(names: str, texts: str, name: str) -> str:
    """The text beside the first such name; null without one."""
    return f"get({texts}, CAST(array_position({names}, {name}) AS INT) - 1)"
