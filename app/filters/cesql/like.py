"""Patterns of LIKE (CESQL 3.4.3). The time is at most length times pattern, whatever the pattern:
each ``%`` but the last takes the first fit and never looks for another, which is enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Matcher = Callable[[str], bool]

_PART = re.compile(r"\\[%_]|[%_]|[^\\%_]+|\\", re.DOTALL)
Pieces = list[list[str | None]]


def compile_like(pattern: str) -> Matcher:
    r"""``%`` is any text, ``_`` one character, ``\%`` and ``\_`` are themselves; so is all else."""
    parts = pieces(pattern)
    texts = [_literal(piece) for piece in parts]
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
    """What stands between the ``%``: lists of texts, with None for any one character."""
    found: Pieces = [[]]
    for part in _PART.findall(pattern):
        if part == "%":
            found.append([])
        elif part == "_":
            found[-1].append(None)
        else:
            found[-1].append(part[1:] if part in {"\\%", "\\_"} else part)
    return found


def _literal(piece: list[str | None]) -> str | None:
    """None where it has a wildcard."""
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
