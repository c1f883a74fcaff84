"""``data``, natively: raw JSON as it is, strings as their text, base64 as its bytes."""

from __future__ import annotations

from typing import Final

from app.event.versions import VERSIONS
from app.pipeline.decode.patterns import BASE64, JSON_TYPE, TEXT_TYPE
from app.pipeline.decode.sql import Columns, found, literals, matches

_TWO_FORMS = literals(name for name, version in VERSIONS.items() if version.two_forms)
_IS_JSON = (
    "(datacontenttype IS NULL OR datacontenttype = 'application/json' OR "
    f"{matches('datacontenttype', JSON_TYPE)})"
)
_IS_BYTES = (
    f"(_base64 OR _encoding IS NOT NULL OR (_version NOT IN ({_TWO_FORMS}) AND NOT {_IS_JSON} "
    f"AND NOT {matches('datacontenttype', TEXT_TYPE)}))"
)
_IS_SAID = "(_base64 OR _encoding IS NOT NULL)"
_MAY_BE_TEXT = found(
    "datacontenttype", "(?i)charset|html|javascript|yaml|csv|x-www-form-urlencoded"
)
_IN_UTF_8 = (
    f"(NOT {found('datacontenttype', '(?i)charset')} OR "
    + found("datacontenttype", r"(?i)\A[^;]*+; ?charset=utf-8\z")
    + ")"
)
_INNER = (
    r"IF(contains(_raw, '\\'), get(from_json(concat('[', _raw, ']'), 'ARRAY<STRING>'), 0), "
    "substring(_raw, 2, char_length(_raw) - 2))"
)

FORMED: Final[Columns] = {
    "_form": (
        "CASE WHEN NOT _structured OR NOT _there THEN 'opaque' "
        f"WHEN {_IS_BYTES} THEN 'opaque' WHEN {_IS_JSON} THEN 'json' ELSE 'text' END"
    )
}
INNER: Final[Columns] = {
    "_inner": (f"IF(_structured AND _form <> 'json' AND startswith(_raw, '\"'), {_INNER}, NULL)")
}
CODED: Final[Columns] = {
    "_bytes": (
        "CASE WHEN NOT _structured THEN _body "
        f"WHEN _form = 'opaque' AND {matches('_inner', BASE64)} THEN unbase64(_inner) END"
    )
}
TAKEN: Final[Columns] = {
    "_text": (
        "CASE _form WHEN 'json' THEN _raw WHEN 'text' THEN _inner "
        "ELSE try_validate_utf8(CAST(_bytes AS STRING)) END"
    )
}
CLEAR: Final = (
    "NOT _structured OR NOT _there OR (_form = 'json' AND NOT _base64) OR "
    f"(_form = 'text' AND _inner IS NOT NULL AND {_IN_UTF_8}) OR "
    f"(_form = 'opaque' AND _bytes IS NOT NULL AND IF({_IS_SAID}, "
    f"NOT _base64 OR _version IN ({_TWO_FORMS}), NOT {_MAY_BE_TEXT}))"
)
