"""Whether a text is exactly one JSON value, natively. Pure.

Spark's reader of JSON is told to be strict, and steps over what nobody asks for, which is cheap. But it ends
without a word behind the first value. So the text stands alone in an array, a mark in a second one: where the
reader comes to the mark, and has found one value before it, it has read all of the text.

The mark must be nothing that the text can bring along itself: a number, whose digits have one spelling, or,
where the reader makes texts of all values, one that is not in the text, not even as an escape.
"""

from __future__ import annotations

from typing import Final

from app.pipeline.decode.sql import literal, matches

_MARK: Final = "7" * 18
_ESCAPED: Final = r"\u0037"
_STRICT: Final = "map('allowSingleQuotes', 'false', 'allowNonNumericNumbers', 'false')"
DEEPEST: Final = 900
"""Arrays and objects within each other that every reader takes: Python's stack ends below a thousand."""

_PAIRED: Final = (
    r"(?:[^\\]+|\\[^u]|\\u(?:(?![dD][89a-fA-F])|"
    r"[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*+"
)
"""Escaped surrogates in pairs only: a lone one is no text."""


def is_one_value(text: str, deepest: int = DEEPEST) -> str:
    """``text``: a column of valid UTF-8. False also for what has ``deepest`` arrays and objects within each other,
    or half a character.
    """
    read = f"IF(startswith({text}, '{{'), {_read_as_object(text)}, {_read_as_text(text)})"
    return f"coalesce({_fit(text, deepest)} AND {read}, false)"


def _fit(text: str, deepest: int) -> str:
    deep = f"(octet_length({text}) < {2 * deepest} OR {_count(text, '[')} + {_count(text, '{')} < {deepest})"
    half = rf"contains({text}, '\\u') AND (contains({text}, '\\ud') OR contains({text}, '\\uD'))"
    return (
        f"NOT contains({text}, '{_MARK}') AND {deep} AND (NOT ({half}) OR {matches(text, _PAIRED)})"
    )


def _count(text: str, bracket: str) -> str:
    return f"octet_length({text}) - octet_length(replace({text}, '{bracket}', ''))"


def _read_as_object(text: str) -> str:
    """Of an object the reader is asked for a member that it steps over all others to find."""
    array = f"concat('[[', {text}, '],[{{\"mark\":{_MARK}}}]]')"
    return _marked(array, "ARRAY<ARRAY<STRUCT<mark: BIGINT>>>", f"get(get(x, 1), 0).mark = {_MARK}")


def _read_as_text(text: str) -> str:
    """Any other value is made a text."""
    array = f"concat('[[', {text}, '],[{_MARK}]]')"
    marked = _marked(array, "ARRAY<ARRAY<STRING>>", f"get(get(x, 1), 0) = '{_MARK}'")
    return f"NOT contains({text}, {literal(_ESCAPED)}) AND {marked}"


def _marked(array: str, schema: str, mark: str) -> str:
    """``exists`` gives what was read a name."""
    read = f"from_json({array}, '{schema}', {_STRICT})"
    return f"exists(array({read}), x -> size(x) = 2 AND size(get(x, 0)) = 1 AND {mark})"
