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

from app.errors import SetupError
from app.pipeline.kinds import (
    MOST_DIGITS,
    Exact,
    Field,
    Items,
    Kind,
    Leaf,
    Members,
    Properties,
)

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
_INT: Final = (-(2**31), 2**31 - 1)
_LONG: Final = (-(2**63), 2**63 - 1)
_CHOICES: Final = ("anyOf", "oneOf")
_DEEPEST: Final = 32


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
        document = json.loads(text.decode(json.detect_encoding(text)), parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"is not JSON: {error}", setting=at, cure="repair the file") from error
    reader = _Reader(document, at)
    found = reader.kind(document, ())
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

    def kind(self, schema: Any, within: tuple[str, ...]) -> Kind:
        """Return the kind of a part of the schema. ``within`` has the references that led to it: a
        part that contains itself has no columns."""
        whole = self._whole(schema, within)
        if whole is None:
            return _JSON
        merged, followed = whole
        match _type(merged):
            case "string":
                return _FORMATS.get(str(merged.get("format")), Leaf("string"))
            case "boolean":
                return Leaf("boolean")
            case "integer":
                return _integer(merged)
            case "number":
                return _number(merged)
            case "array":
                return self._array(merged, followed)
            case "object":
                return self._object(merged, followed)
        return _JSON

    def demand_free(self, names: Iterable[str]) -> None:
        """Raise SetupError if a column of the table would have the name of another column."""
        for name in names:
            if name.lower().startswith(PREFIX):
                self._refuse(f"has the property {name}: {PREFIX}... are columns of the event")
            if name.lower() in RESERVED:
                self._refuse(f"has the property {name}, which is a column of Iceberg")

    def _array(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> Kind:
        items = schema.get("items")
        if "prefixItems" in schema or not isinstance(items, dict):
            return _JSON
        return Items(self.kind(items, within))

    def _object(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> Kind:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            self._demand_names(properties)
            return Properties(
                tuple(Field(name, self.kind(part, within)) for name, part in properties.items())
            )
        others = schema.get("additionalProperties")
        if "patternProperties" in schema or not isinstance(others, dict) or not others:
            return _JSON
        return Members(self.kind(others, within))

    def _demand_names(self, names: Iterable[str]) -> None:
        seen: dict[str, str] = {}
        for name in names:
            before = seen.setdefault(name.lower(), name)
            if before != name:
                self._refuse(f"has the properties {before} and {name}, which are one column in SQL")
            if not name.isprintable() or not name or _UNNAMEABLE.intersection(name):
                self._refuse(f"has the property {name!r}, which cannot be the name of a column")

    def _refuse(self, fault: str) -> None:
        cure = "use a schema without this property: the table events keeps the whole data"
        raise SetupError(fault, setting=self._at, cure=cure)

    def _whole(
        self, schema: Any, within: tuple[str, ...]
    ) -> tuple[dict[str, Any], tuple[str, ...]] | None:
        """Return a part with its references, ``allOf`` and its only choice merged, and the references
        that were followed; None if it has no columns."""
        if not isinstance(schema, dict) or len(within) > _DEEPEST:
            return None
        own = {
            name: value
            for name, value in schema.items()
            if name not in {"$ref", "allOf", *_CHOICES}
        }
        followed = within
        for part, reference in self._parts(schema):
            if reference in within:
                return None
            found = self._whole(part, (*followed, reference) if reference else followed)
            if found is None:
                return None
            own, followed = _merged(found[0], own), tuple({*followed, *found[1]})
        return own, followed

    def _parts(self, schema: Mapping[str, Any]) -> list[tuple[Any, str]]:
        """Return the parts that hold as well, each with its reference."""
        found: list[tuple[Any, str]] = []
        if "$ref" in schema:
            found.append((self._target(schema["$ref"]), str(schema["$ref"])))
        found += [(part, "") for part in _listed(schema.get("allOf"))]
        for choice in _CHOICES:
            if choice in schema:
                others = [each for each in _listed(schema[choice]) if not _is_null(each)]
                found.append((others[0] if len(others) == 1 else None, ""))
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
            name = step.replace("~1", "/").replace("~0", "~")
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


def _merged(base: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return both schemas as one. The properties of both remain."""
    found = {**base, **more}
    if isinstance(base.get("properties"), dict) and isinstance(more.get("properties"), dict):
        found["properties"] = {**base["properties"], **more["properties"]}
    return found


def _type(schema: Mapping[str, Any]) -> str:
    """Return the only type of a value besides null; empty if there are several."""
    named = schema.get("type")
    if named is None:
        return _implied(schema)
    types = {named} if isinstance(named, str) else set(_listed(named)) - {"null"}
    if types == {"integer", "number"}:
        return "number"
    return str(types.pop()) if len(types) == 1 else ""


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


def _integer(schema: Mapping[str, Any]) -> Kind:
    low, high = _bounds(schema)
    if schema.get("format") == "int32":
        return Leaf("int")
    if low is not None and high is not None and _INT[0] <= low and high <= _INT[1]:
        return Leaf("int")
    beyond = (low is not None and low < _LONG[0]) or (high is not None and high > _LONG[1])
    return Exact(_precision(low, high, 0), 0) if beyond else Leaf("long")


def _number(schema: Mapping[str, Any]) -> Kind:
    """Return a decimal if ``multipleOf`` states how many digits follow the point, else a double."""
    step = schema.get("multipleOf")
    if isinstance(step, bool) or not isinstance(step, int | Decimal) or step <= 0:
        return Leaf("double")
    scale = max(0, -int(Decimal(step).normalize().as_tuple().exponent))
    precision = _precision(*_bounds(schema), scale)
    return Exact(precision, scale) if scale <= precision else Leaf("double")


def _precision(low: Decimal | None, high: Decimal | None, scale: int) -> int:
    if low is None or high is None:
        return MOST_DIGITS
    whole = len(str(int(max(abs(low), abs(high)))))
    return min(MOST_DIGITS, whole + scale)


def _bounds(schema: Mapping[str, Any]) -> tuple[Decimal | None, Decimal | None]:
    """Return the least and greatest value; None where the schema has no bound."""

    def bound(*names: str) -> Decimal | None:
        found = [
            Decimal(schema[name]) for name in names if isinstance(schema.get(name), int | Decimal)
        ]
        return found[0] if found else None

    return bound("minimum", "exclusiveMinimum"), bound("maximum", "exclusiveMaximum")
