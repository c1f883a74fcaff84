"""Documents of JSON, natively: the raw text of ``data`` is cut out, and the rest is read without it.

The first ``"data":`` is taken for the member. That is proven afterwards: with an empty string in the place
of the value, what is left must be a plain object, where nothing like a member stands within a text.

What follows the colon ends with the brace of the document. Plain members before the brace, if there are any,
are the tail; what is left must be exactly one JSON value. Then the document is JSON, too: it is the plain
object with one value in the place of another. Where the tail was taken for too long or too short, what is
left is no value.
"""

from __future__ import annotations

from typing import Final

from app.formats.json_members import MEMBERS
from app.pipeline.decode.json_patterns import ALL_TAIL, BAG, ENVELOPE, TAIL
from app.pipeline.decode.json_value import is_one_value
from app.pipeline.decode.patterns import PRINTABLE
from app.pipeline.decode.sql import TEXTS, Columns, at, found, literal, matches

_DATA = literal('"data":')
_BASE64 = literal('"data_base64":')
_SPACE = r"' \t\r\n'"
_WINDOW = 1000
"""Characters that the tail is looked for in: of a long run of members every one would be tried as its start."""


def _from_byte(column: str, start: str) -> str:
    """By bytes: characters of a long text would have to be counted."""
    return f"CAST(substring(CAST({column} AS BINARY), {start}) AS STRING)"


def _without_last(column: str, octets: str) -> str:
    return _from_byte(column, f"1, octet_length({column}) - {octets}")


def _trimmed(column: str, ends: str) -> str:
    """Without white space after it, which is looked for only where the text does not end in one of ``ends``:
    Spark measures every character before it trims one.
    """
    ended = " OR ".join(f"endswith({column}, {literal(end)})" for end in ends)
    return f"IF({ended}, {column}, trim(TRAILING {_SPACE} FROM {column}))"


FOUND: Final[Columns] = {"_document": "IF(_structured, CAST(value AS STRING), NULL)"}
NAMED: Final[Columns] = {
    "_member": f"IF(contains(_document, {_DATA}), {_DATA}, {_BASE64})",
}
AIMED: Final[Columns] = {"_head": "substring_index(_document, _member, 1)"}
CUT: Final[Columns] = {
    "_there": "coalesce(octet_length(_head) < octet_length(_document), false)",
    "_base64": (
        f"coalesce(octet_length(_head) < octet_length(_document) AND _member = {_BASE64}, false)"
    ),
    "_utf_8": "is_valid_utf8(_document)",
}
_BEHIND = _from_byte("_document", "octet_length(_head) + octet_length(_member) + 1")
AFTER: Final[Columns] = {"_after": f"IF(_there, trim(LEADING {_SPACE} FROM {_BEHIND}), NULL)"}
SHUT: Final[Columns] = {"_shut": _trimmed("_after", "}")}
LAST: Final[Columns] = {"_last": f"IF(endswith(_shut, '}}'), {_without_last('_shut', '1')}, NULL)"}
REST: Final[Columns] = {"_rest": _trimmed("_last", '}]"')}
_BRACKETED = (
    "(startswith(_rest, '{') AND endswith(_rest, '}') "
    f"AND NOT contains(_rest, '\"{BAG}\"') OR startswith(_rest, '[') AND endswith(_rest, ']'))"
)
_ONE_TEXT = (
    """startswith(_rest, '"') AND endswith(_rest, '"') """
    """AND octet_length(replace(_rest, '"')) = octet_length(_rest) - 2"""
)
_BEHIND_BRACE = "substring_index(_rest, '}', -1)"
_SEARCHED = f"regexp_extract(substring(_rest, -{_WINDOW}), {literal(TAIL)}, 0)"
FOLLOWED: Final[Columns] = {
    "_tail": (
        f"CASE WHEN {_BRACKETED} OR {_ONE_TEXT} THEN '' "
        f"WHEN startswith(_rest, '{{') AND {found(_BEHIND_BRACE, ALL_TAIL)} THEN {_BEHIND_BRACE} "
        f"ELSE {_SEARCHED} END"
    )
}
"""Behind an object members follow its brace, as a rule: to search for them is dear."""

BODY: Final[Columns] = {
    "_raw": (
        "IF(octet_length(_tail) = 0, _rest, "
        + _trimmed(_without_last("_rest", "octet_length(_tail)"), '}]"')
        + ")"
    ),
    "_envelope": ("IF(_there, concat(_head, _member, '\"\"', _tail, '}'), _document)"),
}
READ: Final[Columns] = {
    "_members": (
        f"IF(_utf_8 AND {found('_envelope', ENVELOPE)} AND (NOT _there OR {is_one_value('_raw')}), "
        f"from_json(_envelope, '{TEXTS}'), NULL)"
    )
}
BAGGED: Final[Columns] = {
    "_bag": f"IF(_structured AND _nested, from_json({at('_names', '_texts', literal(BAG))}, '{TEXTS}'), NULL)"
}

_UNESCAPED = matches("concat_ws('', _texts)", PRINTABLE)
CLEAR: Final = (
    "_members IS NOT NULL "
    f"AND size(_members) < {MEMBERS} AND (_bag IS NULL OR size(_bag) < {MEMBERS}) "
    f"AND (NOT contains(_envelope, '\\\\') OR {_UNESCAPED})"
)
