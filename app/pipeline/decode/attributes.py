"""Attributes, natively: found under the names of their version, and held to its rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from app.event.versions import ATTRIBUTES, NEWEST, VERSIONS, Rule, Version
from app.pipeline.decode.headers import FOREIGN, TYPED, extension_prefix, header_of
from app.pipeline.decode.json_patterns import BAG, SPACE, UNQUOTED
from app.pipeline.decode.patterns import NAME, PRINTABLE, any_of, value_pattern
from app.pipeline.decode.sql import TEXTS, Columns, at, choice, found, literal, literals, matches

_FIRST, _LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
_RULES = {name: rule for name, rule in VERSIONS[NEWEST].rules.items() if name != "specversion"}
_TYPED = "datacontenttype"
COLUMNS: Final = ["time_text" if name == "time" else name for name in _RULES]
"""The attributes with a column of their own."""

_QUOTED = [name for name, version in VERSIONS.items() if version.quoted]
_NESTED = [name for name, version in VERSIONS.items() if version.nested]


def instant(text: str) -> str:
    """RFC 3339 lets t and z be small, Spark does not."""
    return f"try_cast(upper({text}) AS TIMESTAMP)"


def time(instant: str) -> str:
    """Python, and so many a reader of the lake, dies of other years."""
    return f"CASE WHEN {instant} BETWEEN TIMESTAMP '{_FIRST} UTC' AND TIMESTAMP '{_LAST} UTC' THEN {instant} END"


def own_name(version: Version, newest: str) -> str:
    """What 1.0 calls ``newest``; ``subject`` was an extension before it was an attribute."""
    return version.own.get(newest, newest)


def _by_version(of: Mapping[str, str]) -> str:
    return choice("_version", of, of[NEWEST])


def _name(newest: str) -> str:
    """The name to look for, by mode and version."""
    in_document = {n: literal(own_name(v, newest)) for n, v in VERSIONS.items()}
    in_headers = {
        n: literal("content-type" if newest == _TYPED else header_of(v, own_name(v, newest)))
        for n, v in VERSIONS.items()
    }
    return f"IF(_structured, {_by_version(in_document)}, {_by_version(in_headers)})"


def _said(attribute: str) -> str:
    version = next(each for each in VERSIONS.values() if each.attribute == attribute)
    name = f"IF(_structured, {literal(attribute)}, {literal(header_of(version, attribute))})"
    return at("_names", "_texts", name)


def _versions() -> str:
    """The name of the version by what the two version attributes say; null for an unknown one."""
    cases = []
    for name, version in VERSIONS.items():
        said = "_said" if version.attribute == ATTRIBUTES[0] else "_said_nested"
        texts = [version.text, f'"{version.text}"'] if version.quoted else [version.text]
        cases.append(f"WHEN {said} IN ({literals(texts)}) THEN {literal(name)}")
    first = f"WHEN _said = {literal(NEWEST)} THEN {literal(NEWEST)}"
    return f"CASE {first} {' '.join(cases)} END"


MET: Final[Columns] = {
    "_names": "IF(_structured, map_keys(_members), _header_names)",
    "_texts": "IF(_structured, map_values(_members), _header_texts)",
}
SAID: Final[Columns] = {"_said": _said(ATTRIBUTES[0])}
SAID_NESTED: Final[Columns] = {"_said_nested": f"IF(_said IS NULL, {_said(ATTRIBUTES[1])}, NULL)"}
VERSIONED: Final[Columns] = {"_version": _versions()}
KIND: Final[Columns] = {
    "_in_quotes": f"NOT _structured AND _version IN ({literals(_QUOTED)})",
    "_nested": f"coalesce(_version IN ({literals(_NESTED)}), false)",
}
PICKED: Final[Columns] = {
    **{f"_{name}": at("_names", "_texts", _name(name)) for name in _RULES},
    "_encoding": "IF(_structured AND _version = '0.3', "
    + at("_names", "_texts", "'datacontentencoding'")
    + ", NULL)",
    "_type_version": "IF(_nested, "
    + at("_names", "_texts", "IF(_structured, 'eventTypeVersion', 'CE-EventTypeVersion')")
    + ", NULL)",
}


def _bare(column: str) -> str:
    """Without the quotes of a JSON string that has no escapes."""
    inner = f"substring({column}, 2, char_length({column}) - 2)"
    return f"IF(_in_quotes AND startswith({column}, '\"'), {inner}, {column})"


BARE: Final[Columns] = {
    **{
        column: _bare(f"_{name}")
        for column, name in zip(COLUMNS, _RULES, strict=True)
        if name != "subject"
    },
    "subject": f"IF(_bag IS NOT NULL, _bag['subject'], {_bare('_subject')})",
    "_other_type": _bare("_type_version"),
    "_others_count": (
        "size(_names) - 1 - IF(_there, 1, 0) - "
        + " - ".join(f"IF(_{name} IS NULL, 0, 1)" for name in [*_RULES, "encoding", "type_version"])
    ),
}
"""``_others_count``: of names that are neither the version, nor a core attribute, nor data."""


def _known(version: Version, *, structured: bool) -> str:
    names = {own_name(version, name) for name in _RULES} | set(version.rules)
    if structured:
        data = {"data", "data_base64"} if version.two_forms else {"data"}
        known = names | data | ({BAG} if version.nested else set())
    else:
        own = names - {version.content_type, version.encoding}
        known = {header_of(version, name) for name in own} | {"content-type"}
    return f"array({literals(sorted(known))})"


def _other_names(name: str, *, structured: bool) -> str:
    """Lines of the other names: valid extensions, and in headers what is foreign."""
    version = VERSIONS[name]
    taken = {"data"} if name == NEWEST else version.reserved | {"data", version.encoding} - {""}
    prefix, foreign = ("", "") if structured else (extension_prefix(version), f"|{FOREIGN}")
    taken = taken | {BAG if structured else version.content_type}
    first = "[a-z0-9]" if version.two_forms else "[a-z]"
    own = rf"{prefix}(?!{any_of(taken)}\n){first}[a-z0-9]*+\n"
    if version.nested:
        own = "(?!)" if structured else rf"{prefix}(?!(?i:{any_of(taken)})\n)[A-Za-z0-9]++\n"
    return f"(?:{own}{foreign})*+"


def _names_clear() -> str:
    lines = r"concat(array_join(_others, '\n', '\n'), '\n')"
    clear = {
        structured: _by_version(
            {name: matches(lines, _other_names(name, structured=structured)) for name in VERSIONS}
        )
        for structured in (True, False)
    }
    broken = r"contains(array_join(_others, '', ''), '\n')"  # a line would be taken for a name
    return f"size(_others) = 0 OR (NOT {broken} AND IF(_structured, {clear[True]}, {clear[False]}))"


OTHERS: Final[Columns] = {
    "_others": "IF(_others_count > 0, array_except(_names, IF(_structured, "
    + _by_version({n: _known(v, structured=True) for n, v in VERSIONS.items()})
    + ", "
    + _by_version({n: _known(v, structured=False) for n, v in VERSIONS.items()})
    + ")), NULL)",
    "_typed": (
        "_structured AND (_others_count > 0 OR _nested) AND " + found("_envelope", UNQUOTED)
    ),
    "_once": "_others_count = 0 OR size(array_distinct(_names)) = size(_names)",
}
_PREFIXES = {name: literal(extension_prefix(version)) for name, version in VERSIONS.items()}
_BEHIND = {name: str(len(extension_prefix(version)) + 1) for name, version in VERSIONS.items()}
_OF_HEADERS = (
    f"map_from_entries(transform(filter(_others, n -> startswith(n, {_by_version(_PREFIXES)}) AND "
    f"{at('_names', '_texts', 'n')} IS NOT NULL), "
    f"n -> struct(lower(substring(n, {_by_version(_BEHIND)})), {at('_names', '_texts', 'n')})))"
)


def _unquoted(kind: str) -> str:
    """Names of members whose values are not in quotes."""
    pattern = literal(rf'"({NAME})"{SPACE}:{SPACE}{kind}')
    return f"IF(_typed, regexp_extract_all(_envelope, {pattern}, 1), NULL)"


OWN: Final[Columns] = {
    "_own": (
        f"CASE WHEN _bag IS NOT NULL AND size(array_distinct(transform(map_keys(_bag), k -> lower(k)))) = size(_bag) "
        "THEN map_filter(transform_keys(_bag, (k, v) -> lower(k)), (k, v) -> k <> 'subject') "
        "WHEN _others_count = 0 OR NOT _once THEN NULL "
        "WHEN _structured THEN map_filter(_members, (k, v) -> array_contains(_others, k)) "
        f"ELSE {_OF_HEADERS} END"
    ),
    "_integers": _unquoted("[-0-9]"),
    "_booleans": _unquoted("[tf]"),
}
_NONE = f"CAST(map() AS {TEXTS})"
_TYPES_OF_HEADERS = (
    "map_from_entries(transform(filter(map_entries(_own), e -> "
    + matches("e.value", TYPED)
    + "), e -> struct(e.key, IF(e.value IN ('true', 'false'), 'Boolean', 'Integer'))))"
)

_TYPES_OF_DOCUMENT = (
    "map_from_arrays(transform(concat(_integers, _booleans), k -> lower(k)), "
    "concat(array_repeat('Integer', size(_integers)), array_repeat('Boolean', size(_booleans))))"
)
EXTENDED: Final[Columns] = {
    "_instant": instant("time_text"),
    "_texts_own": (
        f"CASE WHEN _own IS NULL THEN {_NONE} "
        f"WHEN _in_quotes THEN transform_values(_own, (k, v) -> {_bare('v')}) ELSE _own END"
    ),
    "_kinds": (
        "CASE WHEN _own IS NULL OR size(_integers) + size(_booleans) = 0 THEN NULL "
        f"WHEN _structured THEN {_TYPES_OF_DOCUMENT} "
        f"WHEN _in_quotes THEN {_TYPES_OF_HEADERS} END"
    ),
}
EXTENSIONS: Final = "IF(_other_type IS NULL, _texts_own, map_concat(_texts_own, map('eventtypeversion', _other_type)))"
TYPES: Final = "IF(size(_kinds) > 0, _kinds, NULL)"


_ABSENT: Final = r"\t"
_LINES = " || ".join(
    f"coalesce({column}, '{_ABSENT}') || '\\n'" for column in [*COLUMNS, "_other_type"]
)


def _line(rule: Rule) -> str:
    pattern = value_pattern(rule)
    return rf"{pattern}\n" if rule.required else rf"(?:{pattern}|{_ABSENT})\n"


_OTHER_TYPE = VERSIONS["0.1"].rules["eventTypeVersion"]
_KEPT = matches(_LINES, "".join(map(_line, [*_RULES.values(), _OTHER_TYPE])))
"""Whether every attribute keeps its rule: a line for each, so that one pattern looks at them all."""

_ADDED_TEXTS = matches("concat_ws('', map_values(_texts_own))", PRINTABLE)
_ADDED = f"(_structured OR {_ADDED_TEXTS})"
_BAG_NAMES = r"concat(array_join(map_keys(_bag), '\n'), '\n')"
_BAG_TAKEN = any_of({name for each in _NESTED for name in VERSIONS[each].reserved | {"data"}})
_BAG_CLEAR = (
    "_bag IS NOT NULL AND size(_bag) > 0 AND size(_own) + IF(subject IS NULL, 0, 1) = size(_bag) AND "
    + matches(_BAG_NAMES, rf"(?:(?:subject|(?!(?i:{_BAG_TAKEN})\n)[A-Za-z0-9]++)\n)*+")
)
CLEAR: Final = " AND ".join(
    [
        "_version IS NOT NULL",
        _KEPT,
        f"(NOT _in_quotes OR subject IS NULL OR NOT {matches('subject', TYPED)})",
        "(_encoding IS NULL OR lower(_encoding) = 'base64')",
        f"(_others_count = 0 OR (_once AND {_ADDED} AND ({_names_clear()})))",
        f"(NOT _structured OR NOT _nested OR NOT array_contains(_names, '{BAG}') OR ({_BAG_CLEAR}))",
    ]
)
