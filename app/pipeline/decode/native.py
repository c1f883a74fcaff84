"""The native way. No Python runs here, and nothing is passed that ``app.bindings`` would refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.event.versions import NEWEST, VERSIONS
from app.pipeline.decode.patterns import (
    MEDIA_TYPE,
    NAME,
    OF_FAMILY,
    TEXT,
    quoted,
    value_pattern,
    whole,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEPT = ("broker", "topic", "partition", "offset", "record_time", "key")
_RULES = VERSIONS[NEWEST].rules
_OF_HEADERS = [name for name in _RULES if name != "datacontenttype"]


def decoded(raw: DataFrame, *, kept: tuple[str, ...] = ()) -> DataFrame:
    """DECODED without ``time``, ``doubt`` and the columns ``kept`` of the record."""
    listed = raw.selectExpr(
        *_KEPT,
        "value",
        "headers",
        "headers.key AS _names",
        "CAST(headers.value AS ARRAY<STRING>) AS _texts",
    )
    picked = listed.selectExpr(
        "*", *(f"{_header(_header_name(name))} AS {_column(name)}" for name in _RULES)
    )
    extended = picked.selectExpr(
        "*",
        f"filter(headers, h -> startswith(h.key, 'ce_') AND h.key NOT IN ({_core_names()})) AS _extra",
    )
    return extended.selectExpr(
        *_KEPT,
        *(_column(name) for name in _RULES),
        "map_from_arrays(transform(_extra, h -> substr(h.key, 4)), "
        "transform(_extra, h -> CAST(h.value AS STRING))) AS extensions",
        "CAST(NULL AS MAP<STRING, STRING>) AS types",
        "IF(is_valid_utf8(CAST(value AS STRING)), CAST(value AS STRING), NULL) AS data",
        "IF(is_valid_utf8(CAST(value AS STRING)), NULL, value) AS data_bytes",
        "'opaque' AS data_form",
        "'binary' AS content_mode",
        "'1.0' AS origin_version",
        f"NOT coalesce({_clear()}, false) AS doubt",
        *kept,
    )


def _column(name: str) -> str:
    return "time_text" if name == "time" else name


def _header_name(name: str) -> str:
    return "content-type" if name == "datacontenttype" else f"ce_{name}"


def _header(name: str) -> str:
    return f"get(_texts, CAST(array_position(_names, '{name}') AS INT) - 1)"


def _core_names() -> str:
    return ", ".join(f"'{_header_name(name)}'" for name in _OF_HEADERS)


def _clear() -> str:
    names = whole(
        rf"(?:ce_(?!data\n|datacontenttype\n){NAME}\n|content-type\n|(?!(?i:ce[_-]|content-type\n))[ -~]++\n)*+"
    )
    tests = [
        "_names IS NOT NULL AND size(array_distinct(_names)) = size(_names)",
        f"concat(array_join(_names, '\n', '\n'), '\n') RLIKE {quoted(names)}",
        f"NOT exists(_extra, h -> h.value IS NULL OR NOT CAST(h.value AS STRING) RLIKE {quoted(whole(TEXT))})",
        "NOT exists(_names, n -> contains(n, '\n'))",
        *(_attribute(name) for name in _RULES),
        f"(NOT array_contains(_names, 'content-type') OR NOT datacontenttype RLIKE {quoted(OF_FAMILY)})",
    ]
    return " AND ".join(tests)


def _attribute(name: str) -> str:
    rule = _RULES[name]
    column = _column(name)
    if name == "specversion":
        return f"{column} = '{NEWEST}'"
    pattern = MEDIA_TYPE if name == "datacontenttype" else value_pattern(rule)
    matches = f"coalesce({column} RLIKE {quoted(whole(pattern))}, false)"
    if rule.required:
        return matches
    return f"({matches} OR NOT array_contains(_names, '{_header_name(name)}'))"
