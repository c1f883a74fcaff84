"""The meaning of header names by broker. Each name is looked up once, not once for each record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Final

from app.bindings import kafka, pulsar
from app.bindings.layout import HeaderLayout
from app.bindings.older import own_name
from app.bindings.record import Decoded, Record
from app.bindings.spellings import NamingScheme
from app.event.memo import Memo
from app.event.versions import ATTRIBUTES, VERSIONS, Version
from app.pipeline.decode.meanings import (
    COLUMN_OF,
    DOUBTFUL,
    FOREIGN,
    TYPED,
    Meaning,
    meaning,
    version_lookup,
)
from app.spark.pulsar.options import SCHEME

_NESTED_PREFIX: Final = "CE-"


class ColumnBinding:
    """The binding of one broker, with the meaning of every header name.

    Attributes:
        decode: Decodes a single record.
        content_type: The name of the header that has the content type.
        empty_is_none: Whether an empty value means an event without data.
        version_in: The version attribute that a header holds, by header name; empty for none.
        versions: For each version attribute a function from its text to the index of the version.
        meanings: For each index of a version the meaning of a header, by header name.
    """

    def __init__(self, binding: ModuleType, *, empty_is_none: bool) -> None:
        self.decode: Callable[[Record], Decoded] = binding.decode
        self.content_type: str = binding.CONTENT_TYPE
        self.empty_is_none = empty_is_none
        self._layouts: Mapping[tuple[str, ...], HeaderLayout] = binding.LAYOUTS
        spellings = binding.profile(binding.LIBERAL).spellings
        self._nested: NamingScheme = next(each for each in spellings if each.nested)
        self.version_in: Memo[str, str] = Memo(self._version_in)
        self.versions = {each: version_lookup(each, in_header=True) for each in ATTRIBUTES}
        self.meanings = [Memo(self._meanings_in(version)) for version in VERSIONS.values()]

    def _version_in(self, header: str) -> str:
        own = self._layouts[header,].names
        if own and own[0]:
            return own[0] if own[0] in ATTRIBUTES else ""
        nested = self._nested_name(header)
        return nested if nested in ATTRIBUTES else ""

    def _meanings_in(self, version: Version) -> Callable[[str], Meaning]:
        name_of = self._nested_name if version.nested else self._name

        def of(header: str) -> Meaning:
            layout = self._layouts[header,]
            if layout.typed is not None or not layout.names:
                return FOREIGN  # the content type is read the same way in all versions
            name = name_of(header)
            found = meaning(version, own_name(version, name)) if name else DOUBTFUL
            return DOUBTFUL if found.column == _TYPED_COLUMN else found

        return of

    def _name(self, header: str) -> str:
        return self._layouts[header,].names[0]

    def _nested_name(self, header: str) -> str:
        if not header.startswith(_NESTED_PREFIX):
            return ""
        return self._nested.attribute[header] or ""


_TYPED_COLUMN: Final = COLUMN_OF[TYPED]

KAFKA: Final = ColumnBinding(kafka, empty_is_none=False)
PULSAR: Final = ColumnBinding(pulsar, empty_is_none=True)


def binding_of(topic: str | None) -> ColumnBinding:
    """Return the binding of the broker that a topic belongs to: only topics of Pulsar are URIs."""
    return PULSAR if (topic or "").startswith(SCHEME) else KAFKA
