r"""Patterns of LIKE as conditions (CESQL 3.4.3), by ``app.filters``' own reading of ``%``, ``_``, ``\%`` and ``\_``.

Spark's LIKE has other escapes. As ``app.filters.cesql.like``: each ``%`` but the last takes the first fit
and never looks for another, so that the time stays length times pattern.
"""

from __future__ import annotations

from pyspark.sql import Column

from app.filters.cesql.like import pieces

_Piece = list[str | None]


def like(value: Column, pattern: str) -> Column:
    parts = pieces(pattern)
    match [_literal(piece) for piece in parts]:
        case [str(whole)]:
            return value == whole
        case [str(head), ""]:
            return value.startswith(head)
        case ["", str(tail)]:
            return value.endswith(tail)
        case ["", str(middle), ""]:
            return value.contains(middle)
    return value.rlike(_expression(parts))


def _literal(piece: _Piece) -> str | None:
    """None where it has a wildcard."""
    return None if None in piece else "".join(each for each in piece if each)


def _expression(parts: list[_Piece]) -> str:
    r"""In Java's regular expressions, where ``.`` with ``(?s)`` is any one code point."""
    first, *middle = ("".join("." if p is None else _quoted(p) for p in each) for each in parts)
    if not middle:
        return rf"(?s)\A{first}\z"
    *between, last = middle
    atoms = "".join(f"(?>.*?{each})" for each in between if each)
    return rf"(?s)\A{first}{atoms}.*{last}\z"


def _quoted(text: str) -> str:
    return "".join(f"\\{c}" if c.isascii() and not c.isalnum() else c for c in text)
