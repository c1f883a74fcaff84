"""Read the columns of a typed table from a JSON Schema (2020-12).

The schema decides the columns, not whether data is valid: that is checked by the schema of a route.
So every column may be null. A part of the schema that has no single type becomes the JSON text of
its value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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

_Parts = tuple[tuple[Any, tuple[str, ...]], ...]
"""The parts of a schema that apply to one value, each with the references that led to it."""


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
    found = reader.kind(((document, ()),))
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

    def kind(self, parts: _Parts) -> Kind:
        """Return the kind of the values to which all of these parts of the schema apply."""
        self._columns += 1
        if self._columns > MOST_COLUMNS:
            self._refuse(f"describes more than {MOST_COLUMNS} columns")
        schema: dict[str, Any] = {}
        for part, within in parts:
            found = self._whole(part, within)
            if found is None:
                return _JSON
            schema = _merged(schema, found)
        return self._of(schema)

    def _of(self, schema: Mapping[str, Any]) -> Kind:
        """Return the kind of a merged part of the schema."""
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
                return self._array(schema)
            case "object":
                return self._object(schema)
        return _JSON

    def demand_free(self, names: Iterable[str]) -> None:
        """Raise SetupError if a column of the table would have the name of another column."""
        for name in names:
            if name.lower().startswith(PREFIX):
                self._refuse(f"has the property {name}: {PREFIX}... are columns of the event")
            if name.lower() in RESERVED:
                self._refuse(f"has the property {name}, which is a column of Iceberg")

    def _array(self, schema: Mapping[str, Any]) -> Kind:
        items = schema.get("items")
        if "prefixItems" in schema or not isinstance(items, tuple):
            return _JSON
        return Items(self.kind(items))

    def _object(self, schema: Mapping[str, Any]) -> Kind:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            self._demand_names(properties)
            return Properties(
                tuple(Field(name, self.kind(parts)) for name, parts in properties.items())
            )
        others = schema.get("additionalProperties")
        if "patternProperties" in schema or not isinstance(others, tuple) or others[0][0] == {}:
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

    def _whole(self, schema: Any, within: tuple[str, ...]) -> dict[str, Any] | None:
        """Return a part merged with its references, ``allOf`` and its only choice; None if it has no
        columns. Its inner parts become ``_Parts``.

        ``within`` has the references that led to the part: a part that contains itself has no columns.
        """
        if not isinstance(schema, dict) or len(within) > _DEEPEST:
            return None
        merged: dict[str, Any] = {}
        for part, reference in self._parts(schema):
            if reference in within:
                return None
            found = self._whole(part, (*within, reference) if reference else within)
            if found is None:
                return None
            merged = _merged(merged, found)
        return _merged(merged, _with_parts(schema, within))

    def _parts(self, schema: Mapping[str, Any]) -> list[tuple[Any, str]]:
        """Return the schemas that apply as well, each with its reference."""
        found: list[tuple[Any, str]] = []
        if "$ref" in schema:
            found.append((self._target(schema["$ref"]), str(schema["$ref"])))
        found += [(part, "") for part in _listed(schema.get("allOf"))]
        for choice in _CHOICES:
            if choice in schema:
                others = [each for each in _listed(schema[choice]) if not _is_null(each)]
                if len(others) == 1:
                    found.append((others[0], ""))
                elif not _only_conditions(schema, others):
                    found.append((None, ""))
        return found

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


def _with_parts(schema: Mapping[str, Any], within: tuple[str, ...]) -> dict[str, Any]:
    """Return the keywords of a schema but those that ``_Reader`` merges, with ``_Parts`` inside."""
    own = {name: part for name, part in schema.items() if name not in {"$ref", "allOf", *_CHOICES}}
    for name in ("items", "additionalProperties"):
        if isinstance(own.get(name), dict):
            own[name] = ((own[name], within),)
    if isinstance(own.get("properties"), dict):
        own["properties"] = {name: ((each, within),) for name, each in own["properties"].items()}
    return own


def _only_conditions(schema: Mapping[str, Any], choices: Iterable[Any]) -> bool:
    """Return True if choices add no columns: each only states which members a value must have, or
    the value is no object or list."""
    return _type(schema) in _SCALARS or all(
        isinstance(each, dict) and each.keys() <= _CONDITIONS for each in choices
    )


def _merged(base: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return both schemas as one. Parts and properties of both apply; otherwise ``more`` counts."""
    found = {**base, **more}
    for name in ("items", "additionalProperties"):
        if isinstance(base.get(name), tuple) and isinstance(more.get(name), tuple):
            found[name] = base[name] + more[name]
    if isinstance(base.get("properties"), dict) and isinstance(more.get("properties"), dict):
        found["properties"] = {**base["properties"], **more["properties"]}
        for name in base["properties"].keys() & more["properties"].keys():
            found["properties"][name] = base["properties"][name] + more["properties"][name]
    return found


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
