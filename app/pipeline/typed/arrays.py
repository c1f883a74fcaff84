"""Values of models as Arrow arrays. Each function raises if a value does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.event.types import is_timestamp
from app.pipeline.decode.times import instants
from app.pipeline.kinds import Exact, Items, Kind, Leaf, Members, Properties
from app.pipeline.typed.types import attribute

DATE: Final = r"\A(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}\z"
"""The pattern of a date of RFC 3339 from the year 1 on. The cast refuses days that do not exist."""


class Unfit(ValueError):
    """The error for a value that its column cannot hold."""


def struct_of(
    record: Properties, values: Sequence[msgspec.Struct | None], wanted: pa.StructType
) -> pa.StructArray:
    """Return models as an array of the type ``wanted``. It may have fields that the record lacks:
    they are null."""
    there = {field.name: (attribute(n), field.kind) for n, field in enumerate(record.fields)}
    absent = [value is None for value in values]
    some = any(absent)
    children = []
    for field in wanted:
        if field.name not in there:
            children.append(pa.nulls(len(values), field.type))
            continue
        name, kind = there[field.name]
        get: Callable[[Any], Any] = attrgetter(name)
        inner = [None if v is None else get(v) for v in values] if some else list(map(get, values))
        children.append(array_of(kind, inner, field.type))
    mask = pa.array(absent) if some else None
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)


def array_of(kind: Kind, values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """Return values of a kind as an array of the type ``wanted``."""
    match kind:
        case Properties():
            return struct_of(kind, values, wanted)
        case Items(item=item):
            inner = array_of(item, _flat(values), wanted.value_type)
            return pa.ListArray.from_arrays(_offsets(values), inner, type=wanted)
        case Members(value=value):
            keys = pa.array(_flat(values), wanted.key_type)
            found = list(chain.from_iterable(each.values() for each in values if each))
            offsets, inner = _offsets(values), array_of(value, found, wanted.item_type)
            return pa.MapArray.from_arrays(offsets, keys, inner, type=wanted)
        case Exact():
            return _decimals(kind, values, wanted)
        case Leaf(name="json"):
            return _texts(values)
        case Leaf(name="instant"):
            return _instants(pa.array(values, pa.string()))
        case Leaf(name="date"):
            return _dates(pa.array(values, pa.string()))
    return pa.array(values, wanted)


def _flat(values: Sequence[Any]) -> list[Any]:
    return list(chain.from_iterable(each for each in values if each))


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Return where each list begins and the last ends; null for a list that is null."""
    lengths = np.fromiter((len(each) if each else 0 for each in values), np.int32, len(values))
    begins = np.zeros(len(values) + 1, np.int32)
    np.cumsum(lengths, out=begins[1:])
    absent = np.fromiter((each is None for each in values), bool, len(values))
    return pa.array(begins, mask=np.append(absent, False)) if absent.any() else pa.array(begins)


def _texts(values: Sequence[Any]) -> pa.Array:
    """Return JSON texts as strings; null for the text ``null``."""
    found = pa.array([b"null" if each is None else bytes(each) for each in values], pa.binary())
    found = found.cast(pa.string())
    return pc.if_else(pc.equal(found, "null"), pa.scalar(None, pa.string()), found)


def _decimals(kind: Exact, values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """Return JSON numbers as decimals. Only plain texts are cast: Arrow drops digits of some others."""
    found = _texts(values)
    longest = pc.max(pc.binary_length(found)).as_py() or 0
    # A text of so few octets has few enough digits before the point
    is_short = longest <= kind.precision - kind.scale
    _demand(found, plain_text(kind, digits="+" if is_short else None))
    return found.cast(wanted)


def plain_text(kind: Exact, digits: str | None = None) -> str:
    """Return the pattern of the numbers without an exponent that a decimal column can hold.

    ``digits`` replaces the bound of the digits before the point, which makes the search slow.
    """
    whole = kind.precision - kind.scale
    before = f"[0-9]{digits or f'{{1,{whole}}}'}" if whole else "0"
    return rf"\A-?{before}(?:\.[0-9]{{1,{kind.scale}}})?\z" if kind.scale else rf"\A-?{before}\z"


def _dates(texts: pa.Array) -> pa.Array:
    _demand(texts, DATE)
    return texts.cast(pa.date32())


def _instants(texts: pa.Array) -> pa.Array:
    if not all(text is None or is_timestamp(text) for text in texts.to_pylist()):
        raise Unfit("not a time of RFC 3339")
    found = instants(texts)
    if found.null_count != texts.null_count:
        raise Unfit("a time that no column holds")
    return found


def _demand(texts: pa.Array, pattern: str) -> None:
    if pc.all(pc.match_substring_regex(texts, pattern)).as_py() is False:
        raise Unfit(pattern)
