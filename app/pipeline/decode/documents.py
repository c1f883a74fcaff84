"""Documents of JSON, natively: the raw text of ``data`` is cut out, and the rest is read without it.

The first ``"data":`` is taken for the member. That is proven afterwards: with an empty string in the place
of the value, what is left must be a plain object, where nothing like a member stands within a text.

Where the value ends is proven in one of two ways. Mostly ``data`` is the last member, and what stands between
its colon and the last brace is its value if the document is JSON and ``[value]`` is, too: after the first JSON
value of both, a comma must be followed by a name and a colon in the one, and cannot be in the other, and a
bracket or a brace that closed one of them early would break the other. Spark's strict reader tells both. Where
``data`` is followed by others, a pattern finds its end.
"""

from __future__ import annotations

from typing import Final

from app.formats.json_members import MEMBERS
from app.pipeline.decode.json_patterns import BAG, ENVELOPE, VALUE
from app.pipeline.decode.patterns import PRINTABLE
from app.pipeline.decode.sql import TEXTS, Columns, at, found, literal, matches

_DATA = '"data":'
_BASE64 = '"data_base64":'
_SPACE = r"' \t\r\n'"
_DEEPEST = 900
"""Arrays and objects within each other that every reader takes: Python's stack ends below a thousand."""


def _from_byte(column: str, start: str) -> str:
    """By bytes: characters of a long text would have to be counted."""
    return f"CAST(substring(CAST({column} AS BINARY), {start}) AS STRING)"


def _without_last(column: str) -> str:
    return _from_byte(column, f"1, octet_length({column}) - 1")


def _trimmed(column: str, ends: str) -> str:
    """Without white space after it, which is looked for only where the text does not end in one of ``ends``:
    Spark measures every character before it trims one.
    """
    ended = " OR ".join(f"endswith({column}, {literal(end)})" for end in ends)
    return f"IF({ended}, {column}, trim(TRAILING {_SPACE} FROM {column}))"


FOUND: Final[Columns] = {
    "_document": "IF(_structured, CAST(value AS STRING), NULL)",
    "_before_data": (
        f"IF(_structured, substring_index(CAST(value AS STRING), {literal(_DATA)}, 1), NULL)"
    ),
}
AIMED: Final[Columns] = {
    "_head": (
        "IF(octet_length(_before_data) < octet_length(_document), _before_data, "
        f"substring_index(_document, {literal(_BASE64)}, 1))"
    ),
}
CUT: Final[Columns] = {
    "_there": "coalesce(octet_length(_head) < octet_length(_document), false)",
    "_base64": (
        "coalesce(octet_length(_head) < octet_length(_document) "
        "AND octet_length(_before_data) = octet_length(_document), false)"
    ),
}
AFTER: Final[Columns] = {
    "_after": (
        "IF(_there, ltrim("
        + _from_byte(
            "_document", f"octet_length(_head) + IF(_base64, {len(_BASE64)}, {len(_DATA)}) + 1"
        )
        + "), NULL)"
    ),
}
SHUT: Final[Columns] = {"_shut": _trimmed("_after", "}")}
LAST: Final[Columns] = {
    "_last": f"IF(endswith(_shut, '}}'), trim(LEADING {_SPACE} FROM {_without_last('_shut')}), NULL)"
}
BODY: Final[Columns] = {"_body": _trimmed("_last", '}]"')}


def _opened(bracket: str) -> str:
    return f"octet_length(_body) - octet_length(replace(_body, '{bracket}', ''))"


_SHALLOW = f"(octet_length(_body) < {2 * _DEEPEST} OR {_opened('[')} + {_opened('{')} < {_DEEPEST})"
PROVEN: Final[Columns] = {
    "_proven": (
        f"_body IS NOT NULL AND _body <> '' AND is_valid_utf8(_document) AND {_SHALLOW} "
        r"AND NOT contains(_body, '\\ud') AND NOT contains(_body, '\\uD') "
        "AND try_parse_json(concat('[', _body, ']')) IS NOT NULL AND try_parse_json(_document) IS NOT NULL"
    )
}
"""Escaped surrogates are left to the pattern: a lone one is no text."""

VALUED: Final[Columns] = {
    "_raw": f"IF(_proven, _body, regexp_extract(_after, {literal(VALUE)}, 1))"
}
_TAIL = _from_byte(f"trim(LEADING {_SPACE} FROM _after)", "octet_length(_raw) + 1")
FILLED: Final[Columns] = {
    "_envelope": (
        f"IF(_there, concat(_head, IF(_base64, '{_BASE64}\"\"', '{_DATA}\"\"'), "
        f"IF(_proven, '}}', {_TAIL})), _document)"
    )
}
READ: Final[Columns] = {
    "_members": (f"IF({found('_envelope', ENVELOPE)}, from_json(_envelope, '{TEXTS}'), NULL)")
}
BAGGED: Final[Columns] = {
    "_bag": f"IF(_structured AND _nested, from_json({at('_names', '_texts', literal(BAG))}, '{TEXTS}'), NULL)"
}

_UNESCAPED = matches("concat_ws('', _texts)", PRINTABLE)
CLEAR: Final = (
    "_members IS NOT NULL AND (NOT _there OR _raw <> '') "
    f"AND size(_members) < {MEMBERS} AND (_bag IS NULL OR size(_bag) < {MEMBERS}) "
    f"AND (NOT contains(_envelope, '\\\\') OR {_UNESCAPED})"
)
