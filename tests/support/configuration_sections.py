"""Find the sections of the configuration file in its JSON Schema, each with its paths.

A section is one definition of the schema. Several definitions may have the same path, for example one for each
kind of broker. Each of them then has a ``variant``: its constant, or a setting that the others lack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from markdown_writing import slug

Schema = Mapping[str, Any]

_KINDS = ("kind", "preset")


class Place(NamedTuple):
    """A place of a section in the file: its path, and the variants of the sections above it."""

    path: str
    variants: tuple[str, ...] = ()


class Section(NamedTuple):
    """A section of the file.

    Attributes:
        schema: Its definition.
        places: All its places. The first one names the section.
        variant: ``kind: kafka``, ``with form``, or "" if no other section has its path.
    """

    schema: Schema
    places: tuple[Place, ...]
    variant: str = ""

    @property
    def top(self) -> str:
        """Return the setting at the top of the file that holds the section."""
        return re.split(r"[.\[]", self.places[0].path)[0]

    @property
    def heading(self) -> str:
        return shown(self.places[0], self.variant)

    @property
    def slug(self) -> str:
        return slug(self.heading)

    def anchor(self, setting: str) -> str:
        """Return the anchor of a setting: "brokers.NAME.kafka.client_id"."""
        variants = [*self.places[0].variants, self.variant]
        words = [variant.rpartition(" ")[2] for variant in variants if variant]
        return ".".join([self.places[0].path.replace("[]", ""), *words, setting])


def shown(place: Place, variant: str = "") -> str:
    """Return a place as readers see it: its path, and the variants in brackets."""
    variants = ", ".join(filter(None, (*place.variants, variant)))
    return f"`{place.path}`" + (f" ({variants})" if variants else "")


def sections(schema: Schema) -> Mapping[str, Section]:
    """Return the sections by the name of their definition, outermost ones first."""
    definitions: Schema = schema["$defs"]
    places: dict[str, dict[Place, None]] = {}
    for place, name in _places(schema, definitions, Place("")):
        places.setdefault(name, {})[place] = None
    by_path: dict[Place, list[Schema]] = {}
    for name, found in places.items():
        by_path.setdefault(next(iter(found)), []).append(definitions[name])
    return {
        name: Section(
            definitions[name],
            tuple(found),
            _variant(definitions[name], by_path[next(iter(found))]),
        )
        for name, found in places.items()
    }


def _places(schema: Schema, definitions: Schema, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield every place of a definition, with the name of the definition, outermost places first."""
    kind = _kind(schema)
    variants = (*place.variants, kind) if kind else place.variants
    for name, value in schema.get("properties", {}).items():
        for suffix, reference in references(value):
            if definitions[reference] is schema:
                continue  # a filter of filters: it has its section already
            below = Place(f"{place.path}.{name}{suffix}".removeprefix("."), variants)
            yield below, reference
            yield from _places(definitions[reference], definitions, below)


def references(value: Schema, suffix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the definitions that a value may have, each after the suffix of its path: ``[]`` or ``.NAME``."""
    if "$ref" in value:
        yield suffix, value["$ref"].rpartition("/")[2]
    for choice in [*value.get("anyOf", ()), *value.get("oneOf", ())]:
        yield from references(choice, suffix)
    if "items" in value:
        yield from references(value["items"], f"{suffix}[]")
    for inner in _map_values(value):
        yield from references(inner, f"{suffix}.NAME")


def _map_values(value: Schema) -> Iterator[Schema]:
    if isinstance(value.get("additionalProperties"), dict):
        yield value["additionalProperties"]
    yield from value.get("patternProperties", {}).values()


def _kind(schema: Schema) -> str:
    """Return ``kind: kafka`` for a definition with a constant, or ""."""
    for name in _KINDS:
        constant = schema.get("properties", {}).get(name, {}).get("const")
        if constant:
            return f"{name}: {constant}"
    return ""


def _variant(schema: Schema, here: list[Schema]) -> str:
    """Return what distinguishes a definition from the others at the same place."""
    kind = _kind(schema)
    if kind or len(here) == 1:
        return kind
    others = {name for other in here if other is not schema for name in other["properties"]}
    own = [name for name in schema.get("required", ()) if name not in others]
    return f"with {own[0]}" if own else ""
