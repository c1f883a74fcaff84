"""Patterns of LIKE (CESQL 3.4.3). Matching takes time proportional to at most text length times pattern
length.

The text after each ``%`` except the last is matched at its first occurrence, without backtracking. That is
sufficient.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Matcher = Callable[[str], bool]

_PART = re.compile(r"\\[%_]|[%_]|[^\\%_]+|\\", re.DOTALL)
Pieces = list[list[str | None]]


def compile_like(pattern: str) -> Matcher:
    r"""Return the matcher of a pattern. ``%`` matches any text, ``_`` one character; ``\%`` and ``\_`` match
    themselves.
    """
    parts = pieces(pattern)
    texts = [literal(piece) for piece in parts]
    match texts:
        case [str(whole)]:
            return whole.__eq__
        case [str(head), ""]:
            return lambda value: value.startswith(head)
        case ["", str(tail)]:
            return lambda value: value.endswith(tail)
        case ["", str(middle), ""]:
            return lambda value: middle in value
    return _expression(parts)


def pieces(pattern: str) -> Pieces:
    """Return the parts of a pattern between its ``%``. Each part is a list of texts, in which None means any
    one character."""
    found: Pieces = [[]]
    for part in _PART.findall(pattern):
        if part == "%":
            found.append([])
        elif part == "_":
            found[-1].append(None)
        else:
            found[-1].append(part[1:] if part in {"\\%", "\\_"} else part)
    return found


def literal(piece: list[str | None]) -> str | None:
    """Return the text of a part, or None if the part has a wildcard."""
    return None if None in piece else "".join(each for each in piece if each)


def _expression(parts: Pieces) -> Matcher:
    first, *middle = ("".join("." if p is None else re.escape(p) for p in each) for each in parts)
    if not middle:
        return _found(re.compile(first, re.DOTALL))
    *between, last = middle
    atoms = "".join(f"(?>.*?{each})" for each in between if each)
    return _found(re.compile(f"{first}{atoms}.*{last}", re.DOTALL))


def _found(compiled: re.Pattern[str]) -> Matcher:
    return lambda value: compiled.fullmatch(value) is not None
