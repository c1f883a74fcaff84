"""Documents of JSON, natively: the raw text of ``data`` is cut out, and the rest is read without it.

The first ``"data":`` is taken for the member. That is proven afterwards: with an empty string in the place
of the value, what is left must be a plain object, where nothing like a member stands within a text.
"""

from __future__ import annotations

from typing import Final

from app.formats.json_members import MEMBERS
from app.pipeline.decode import headers
from app.pipeline.decode.json_patterns import BAG, ENVELOPE, VALUE
from app.pipeline.decode.patterns import PRINTABLE
from app.pipeline.decode.sql import TEXTS, Columns, at, found, literal, matches

_DATA = '"data":'
_BASE64 = '"data_base64":'
_SPACE = r"' \t\r\n'"

FOUND: Final[Columns] = {
    "_document": "IF(_structured, CAST(value AS STRING), NULL)",
    "_data_at": f"IF(_structured, instr(CAST(value AS STRING), '{_DATA}'), 0)",
}
AIMED: Final[Columns] = {
    "_at": f"IF(_structured AND _data_at = 0, instr(_document, '{_BASE64}'), _data_at)",
}
CUT: Final[Columns] = {
    "_base64": "_at <> _data_at",
    "_head": "IF(_at > 0, left(_document, _at - 1), NULL)",
    "_after": (
        "IF(_at > 0, substring(_document, _at + "
        f"IF(_at = _data_at, {len(_DATA)}, {len(_BASE64)})), NULL)"
    ),
}
VALUED: Final[Columns] = {"_raw": f"regexp_extract(_after, {literal(VALUE)}, 1)"}
_TAIL = (
    f"CAST(substring(CAST(trim(LEADING {_SPACE} FROM _after) AS BINARY), octet_length(_raw) + 1) "
    "AS STRING)"
)
FILLED: Final[Columns] = {
    "_envelope": (
        f"IF(_at > 0, concat(_head, IF(_base64, '{_BASE64}\"\"', '{_DATA}\"\"'), {_TAIL}), _document)"
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
    f"{headers.IS_DOCUMENT} AND _members IS NOT NULL AND (_at = 0 OR _raw <> '') "
    f"AND size(_members) < {MEMBERS} AND (_bag IS NULL OR size(_bag) < {MEMBERS}) "
    f"AND (NOT contains(_envelope, '\\\\') OR {_UNESCAPED})"
)
