"""The mapping of attributes to columns of the lake, by the version and the attribute's name in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from app.event.memo import Memo
from app.event.types import is_name
from app.event.versions import EXTENSIONS, NEWEST, VERSIONS, Version

TEXTS: Final = (
    "specversion", "id", "source", "type", "subject", "datacontenttype", "dataschema", "time",
)  # fmt: skip
"""The attributes with a column of their own, by their 1.0 names, in the order of ``DecodedRow``."""

COLUMN_OF: Final[Mapping[str, int]] = {name: place for place, name in enumerate(TEXTS)}
TYPED: Final = "datacontenttype"
NAMES: Final = tuple(VERSIONS)
"""The texts of the versions. The decoders refer to a version by its index in this tuple."""

_SUBJECT: Final = "subject"


class Meaning(NamedTuple):
    """The column that an attribute belongs to.

    Attributes:
        column: The index in ``TEXTS``, or the column of ``EXTENSION``, ``FOREIGN`` or ``DOUBTFUL``.
        name: The 1.0 name of an extension.
        text_only: Whether the value must be a String that is not empty.
    """

    column: int
    name: str = ""
    text_only: bool = False


EXTENSION: Final = -1
FOREIGN: Final = Meaning(-2)
"""The meaning of a header that is not part of the event."""
DOUBTFUL: Final = Meaning(-3)
"""The meaning of an attribute whose row must be decoded singly."""


def meaning(version: Version, own: str) -> Meaning:
    """Return the column of the attribute that ``version`` names ``own``.

    The result is ``DOUBTFUL`` for an extension whose name 1.0 would change.
    """
    if own == version.attribute:
        return Meaning(COLUMN_OF["specversion"])
    if own in version.rules:
        return _of_core(version, own)
    name = own.removeprefix(EXTENSIONS).lower() if version.nested else own
    if not version.is_name(own) or not is_name(name):
        return DOUBTFUL
    if name == _SUBJECT:  # later versions made it a core attribute
        return Meaning(COLUMN_OF[_SUBJECT], text_only=True)
    if version.text != NEWEST and name in version.reserved:
        return DOUBTFUL
    return Meaning(EXTENSION, name)


def _of_core(version: Version, own: str) -> Meaning:
    newest = version.newest.get(own, own)
    if not newest:
        return DOUBTFUL
    if newest in COLUMN_OF:
        return Meaning(COLUMN_OF[newest])
    return Meaning(EXTENSION, newest, text_only=True)


MEMBERS: Final[tuple[Memo[str, Meaning], ...]] = tuple(
    Memo(partial(meaning, version)) for version in VERSIONS.values()
)
"""The meanings of document members, by version index. An entry of 0.1's ``extensions`` is named
``extensions/NAME``.
"""


def version_lookup(attribute: str, *, in_header: bool) -> Callable[[bytes], int]:
    """Return a function from the text of a version attribute to the index of the version; -1 for no
    version.

    In a header, a version with JSON values may have its text in quotes.
    """
    places: dict[bytes, int] = {}
    for place, version in enumerate(VERSIONS.values()):
        if version.attribute == attribute:
            places[version.text.encode()] = place
            if in_header and version.quoted:
                places[f'"{version.text}"'.encode()] = place
    return lambda text: places.get(text, -1)
