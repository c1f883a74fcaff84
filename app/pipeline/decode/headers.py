"""Headers, natively: the content type, and what they must look like in binary mode."""

from __future__ import annotations

from typing import Final

from app.bindings.kafka import CONTENT_TYPE
from app.bindings.spellings import nested_name, prefix_of
from app.event.versions import Version
from app.pipeline.decode.patterns import ANY, INTEGER, JSON_DOCUMENT, MEDIA_TYPE
from app.pipeline.decode.sql import Columns, at, found, literal, matches

_PREFIX = "ce_"
_ENTRY = "X-"  # before the name of an extension in 0.1
_DECLARED = at("_header_names", "_header_texts", literal(CONTENT_TYPE))

LISTED: Final[Columns] = {
    "_header_names": "headers.key",
    "_header_texts": "CAST(headers.value AS ARRAY<STRING>)",
}
DECLARED: Final[Columns] = {
    "_content_type": _DECLARED,
    "_structured": f"coalesce(startswith({_DECLARED}, 'application/cloudevents'), false)",
}


def header_of(version: Version, own: str) -> str:
    """The header of an attribute by its own name; of 0.1, which knew no Kafka, that of its HTTP."""
    if version.nested and own in version.rules:
        return nested_name(prefix_of(version, _PREFIX), own)
    return extension_prefix(version) + own


def extension_prefix(version: Version) -> str:
    return prefix_of(version, _PREFIX) + (_ENTRY if version.nested else "")


IS_DOCUMENT: Final = (
    f"{matches('_content_type', JSON_DOCUMENT)} AND (size(_header_names) = 1 OR "
    f"size(array_remove(_header_names, '{CONTENT_TYPE}')) = size(_header_names) - 1)"
)
"""In JSON and UTF-8, by one content type: whether two agree is for another reader to say."""

FOREIGN: Final = rf"(?!(?i:ce[_\-]|{CONTENT_TYPE}\n))[^\n]++\n"
"""A line with a name that is none of the event's in any case."""

TYPED: Final = f"true|false|{INTEGER}"
_BARE = rf"(?!(?:true|false)\n)[A-Za-z/]{ANY}*+|0\.[12]|[0-9]{{4}}-{ANY}*+"
_QUOTED = rf'(?:(?:"{ANY}*+"|{_BARE}|{TYPED})\n)*+'
_LINES = matches(r"concat(array_join(_texts, '\n', 'null'), '\n')", _QUOTED)
_OTHER_TYPE = (
    "(_content_type IS NULL OR _content_type = 'application/json' OR "
    f"({matches('_content_type', MEDIA_TYPE)} AND NOT "
    + found("_content_type", r"(?i)\Aapplication/cloudevents")
    + "))"
)

CARRIED: Final[Columns] = {
    "_carried": f"IF(_structured, {IS_DOCUMENT}, {_OTHER_TYPE})",
    "_body": "IF(_structured, NULL, value)",
}
"""Whether the content type is clear: asked early, so that it need not be taken along, nor the bytes of a document."""

CLEAR: Final = f"NOT _in_quotes OR {_LINES}"
"""Where values are JSON: strings without escapes, or what is plainly none."""
