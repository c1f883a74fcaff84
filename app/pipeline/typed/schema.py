"""Read the columns of a typed table from a JSON Schema (2020-12).

The schema decides the columns, not whether data is valid: that is checked by the schema of a route.
So every column may be null. A part of the schema that has no single type becomes the JSON text of
its value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final
from urllib.parse import unquote

from app.errors import SetupError
from app.pipeline.kinds import Field, Items, Kind, Leaf, Members, Properties
from app.pipeline.typed import number_kinds

PREFIX: Final = "ce_"
"""The prefix of the columns that a typed table has from the event. No property may begin with it."""

RESERVED: Final = frozenset(
    {
        "_change_ordinal", "_change_type", "_commit_snapshot_id", "_deleted", "_file",
        "_last_updated_sequence_number", "_partition", "_pos", "_row_id", "_spec_id",
    }
)  # fmt: skip
"""The names of Iceberg's own columns. It cannot delete rows of a table with such a column."""

_UNNAMEABLE: Final = frozenset('.`"\\')
"""The characters that no name may have. Iceberg separates inner columns by dots, SQL quotes names by
backquotes, and msgspec reads no member with one of the others in its name."""
_JSON: Final = Leaf("json")
_FORMATS: Final = {"date-time": Leaf("instant"), "date": Leaf("date")}
_CHOICES: Final = ("anyOf", "oneOf")
_SCALARS: Final = frozenset({"string", "boolean", "integer", "number"})
_CONDITIONS: Final = frozenset(
    {
        "$comment", "dependentRequired", "description", "maxProperties", "minProperties", "not",
        "required", "title",
    }
)  # fmt: skip
"""The keywords of choices that state no columns."""
_DEEPEST: Final = 32
MOST_COLUMNS: Final = 5_000
"""The most columns of a table, inner ones too. Types that contain each other may describe millions."""

_Part = tuple[Any, tuple[str, ...]]
"""A part of a schema, with the references that led to it."""


class _NoColumns(Exception):
    """The signal for a part of the schema of which no columns can be made."""


def columns_of(text: bytes, at: str) -> Properties:
    """Return the columns of the data that a schema describes.

    Args:
        text: The content of the schema file.
        at: The path of the setting, for errors.

    Raises:
        SetupError: The schema is not JSON, does not describe an object with properties, or its
            properties have names that columns cannot have.
    """
    try:
        document = json.loads(
            text.decode(json.detect_encoding(text)), parse_float=number_kinds.read
        )
    except (ValueError, RecursionError) as error:
        raise SetupError(f"is not JSON: {error}", setting=at, cure="repair the file") from error
    reader = _Reader(document, at)
    found = reader.kind([(document, ())])
    if isinstance(found, Properties):
        reader.demand_free(field.name for field in found.fields)
        return found
    raise SetupError(
        "does not describe an object with properties, of which columns could be made",
        setting=at,
        cure="give the schema type: object and properties",
    )


class _Reader:
    def __init__(self, document: Any, at: str) -> None:
        self._document = document
        self._at = at
        self._columns = 0

    def kind(self, parts: Sequence[_Part]) -> Kind:
        """Return the kind of the values to which all of these parts of the schema apply."""
        self._columns += 1
        if self._columns > MOST_COLUMNS:
            self._refuse(f"describes more than {MOST_COLUMNS} columns")
        try:
            applied = [each for part in parts for each in self._applied(*part)]
        except _NoColumns:
            return _JSON
        schema: dict[str, Any] = {}
        for part, _ in applied:
            schema |= part  # later parts count
        return self._of(schema, applied)

    def _of(self, schema: Mapping[str, Any], applied: Sequence[_Part]) -> Kind:
        """Return the kind of a schema that is merged of the parts ``applied``."""
        match _type(schema):
            case "string":
                return _FORMATS.get(str(schema.get("format")), Leaf("string"))
            case "boolean":
                return Leaf("boolean")
            case "integer":
                return number_kinds.of_integer(schema)
            case "number":
                return number_kinds.of_number(schema)
            case "array":
                return self._array(schema, applied)
            case "object":
                return self._object(schema, applied)
        return _JSON

    def _applied(self, schema: Any, within: tuple[str, ...]) -> Iterator[_Part]:
        """Yield the schemas that apply with a schema, and this one last: that of its reference, those
        of ``allOf``, and its only choice.

        Raises:
            _NoColumns: There are several choices, or the part contains itself.
        """
        if not isinstance(schema, dict) or len(within) > _DEEPEST:
            raise _NoColumns
        if "$ref" in schema:
            target, reference = self._target(schema["$ref"]), str(schema["$ref"])
            if reference in within:
                raise _NoColumns
            yield from self._applied(target, (*within, reference))
        for part in _listed(schema.get("allOf")):
            yield from self._applied(part, within)
        for choices in (_listed(schema[name]) for name in _CHOICES if name in schema):
            others = [each for each in choices if not _is_null(each)]
            if len(others) == 1:
                yield from self._applied(others[0], within)
            elif not _only_conditions(schema, others):
                raise _NoColumns
        yield schema, within

    def demand_free(self, names: Iterable[str]) -> None:
        """Raise SetupError if a column of the table would have the name of another column."""
        for name in names:
            if name.lower().startswith(PREFIX):
                self._refuse(f"has the property {name}: {PREFIX}... are columns of the event")
            if name.lower() in RESERVED:
                self._refuse(f"has the property {name}, which is a column of Iceberg")

    def _array(self, schema: Mapping[str, Any], applied: Sequence[_Part]) -> Kind:
        items = _inner(schema, applied, "items")
        return Items(self.kind(items)) if items and "prefixItems" not in schema else _JSON

    def _object(self, schema: Mapping[str, Any], applied: Sequence[_Part]) -> Kind:
        properties: dict[str, list[_Part]] = {}
        for part, within in applied:
            if isinstance(part.get("properties"), dict):
                for name, each in part["properties"].items():
                    properties.setdefault(name, []).append((each, within))
        if properties:
            self._demand_names(properties)
            return Properties(
                tuple(Field(name, self.kind(each)) for name, each in properties.items())
            )
        others = _inner(schema, applied, "additionalProperties")
        if "patternProperties" in schema or not others or others[0][0] == {}:
            return _JSON
        return Members(self.kind(others))

    def _demand_names(self, names: Iterable[str]) -> None:
        seen: dict[str, str] = {}
        for name in names:
            before = seen.setdefault(name.casefold(), name)
            if before != name:
                self._refuse(f"has the properties {before} and {name}, which are one column in SQL")
            if not name.isprintable() or not name or _UNNAMEABLE.intersection(name):
                self._refuse(f"has the property {name!r}, which cannot be the name of a column")

    def _refuse(self, fault: str) -> None:
        cure = "use a schema without this property: the table events keeps the whole data"
        raise SetupError(fault, setting=self._at, cure=cure)

    def _target(self, reference: Any) -> Any:
        if reference != "#" and not str(reference).startswith("#/"):
            raise SetupError(
                f"has the reference {reference}, which no columns can be read from",
                setting=self._at,
                cure="refer to a part of the same file: #/$defs/NAME",
            )
        found = self._document
        for step in str(reference)[1:].split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                raise SetupError(
                    f"has the reference {reference}, and no such part",
                    setting=self._at,
                    cure="correct the reference",
                )
        return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and (
        schema.get("type") in ("null", ["null"]) or schema.get("enum") == [None]
    )


def _inner(schema: Mapping[str, Any], applied: Sequence[_Part], keyword: str) -> list[_Part]:
    """Return the schemas that the parts have for a keyword; none if the last one is true or false."""
    if not isinstance(schema.get(keyword), dict):
        return []
    found = [(part.get(keyword), within) for part, within in applied]
    return [each for each in found if isinstance(each[0], dict)]


def _only_conditions(schema: Mapping[str, Any], choices: Iterable[Any]) -> bool:
    """Return True if choices add no columns: each only states which members a value must have, or
    the value is no object or list."""
    return _type(schema) in _SCALARS or all(
        isinstance(each, dict) and each.keys() <= _CONDITIONS for each in choices
    )


def _type(schema: Mapping[str, Any]) -> str:
    """Return the only type of a value besides null; empty if there are several."""
    named = schema.get("type")
    if named is None:
        return _implied(schema)
    listed = [named] if isinstance(named, str) else _listed(named)
    types = {str(each) for each in listed} - {"null"}
    if types == {"integer", "number"}:
        return "number"
    return types.pop() if len(types) == 1 else ""


def _implied(schema: Mapping[str, Any]) -> str:
    """Return the type that a schema without ``type`` implies."""
    if "properties" in schema:
        return "object"
    if "items" in schema:
        return "array"
    given = [schema["const"]] if "const" in schema else _listed(schema.get("enum"))
    types = {type(each) for each in given if each is not None}
    found = {str: "string", bool: "boolean", int: "integer", Decimal: "number"}
    return found.get(types.pop(), "") if len(types) == 1 else ""
