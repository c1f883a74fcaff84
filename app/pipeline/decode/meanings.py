"""Which column of the lake an attribute belongs to, told by its version and its name there."""

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
"""Attributes with a column of their own, by their 1.0 names, in the order of ``Judged``."""

COLUMN_OF: Final[Mapping[str, int]] = {name: place for place, name in enumerate(TEXTS)}
TYPED: Final = "datacontenttype"
NAMES: Final = tuple(VERSIONS)
"""A version is known by its place here."""

_SUBJECT: Final = "subject"


class Meaning(NamedTuple):
    """``column``     place in ``TEXTS``, or one of the three below.
    ``name``       of an extension, in 1.0.
    ``text_only``  the value must be a String, and not empty.
    """

    column: int
    name: str = ""
    text_only: bool = False


EXTENSION: Final = -1
FOREIGN: Final = Meaning(-2)
"""None of the event's."""
DOUBTFUL: Final = Meaning(-3)
"""The row has to be looked at on its own."""


def meaning(version: Version, own: str) -> Meaning:
    """Of the attribute that ``version`` calls ``own``. A name that 1.0 would change is doubtful."""
    if own == version.attribute:
        return Meaning(COLUMN_OF["specversion"])
    if own in version.rules:
        return _of_core(version, own)
    name = own.removeprefix(EXTENSIONS).lower() if version.nested else own
    if not version.is_name(own) or not is_name(name):
        return DOUBTFUL
    if name == _SUBJECT:  # what later became a core attribute
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
"""By the version's place: what the members of its documents mean; an entry of 0.1's ``extensions`` is
``extensions/NAME``.
"""


def said(attribute: str, *, in_header: bool) -> Callable[[bytes], int]:
    """What the version attribute says to the version's place, below zero for none. A header of a version
    whose values are JSON may say it in quotes.
    """
    places: dict[bytes, int] = {}
    for place, version in enumerate(VERSIONS.values()):
        if version.attribute == attribute:
            places[version.text.encode()] = place
            if in_header and version.quoted:
                places[f'"{version.text}"'.encode()] = place
    return lambda text: places.get(text, -1)
