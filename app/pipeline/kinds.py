"""The kinds of columns that typed tables have. Workers import this module, so it has no Spark."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

LeafName = Literal["string", "int", "long", "double", "boolean", "date", "instant", "json"]


class Leaf(msgspec.Struct, frozen=True, tag=True):
    """A column without inner columns.

    ``instant`` is a time in microseconds, ``json`` the JSON text of a value as it was received.
    """

    name: LeafName


class Exact(msgspec.Struct, frozen=True, tag=True):
    """A decimal number: ``precision`` digits, of which ``scale`` are after the point."""

    precision: int
    scale: int


class Properties(msgspec.Struct, frozen=True, tag=True):
    """An object with named columns."""

    fields: tuple[Field, ...]


class Field(msgspec.Struct, frozen=True):
    """A column of a record."""

    name: str
    kind: Kind


class Items(msgspec.Struct, frozen=True, tag=True):
    """A list of values of one kind."""

    item: Kind


class Members(msgspec.Struct, frozen=True, tag=True):
    """A map from texts to values of one kind."""

    value: Kind


Kind = Leaf | Exact | Properties | Items | Members

MOST_DIGITS: Final = 38
"""The most digits of a decimal in Iceberg."""


class TypedTable(msgspec.Struct, frozen=True):
    """The settings of one typed table.

    Attributes:
        type: The type of the events whose data the table has.
        table: The name of the table.
        data: The columns of the data.
    """

    type: str
    table: str
    data: Properties
