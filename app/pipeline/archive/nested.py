"""Columns inside other columns, found by Iceberg's ids. Their names in a file may be old ones: a column
can be renamed, or dropped and added again under the same name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

FIELD_ID: Final = b"PARQUET:field_id"
"""The key of Iceberg's id in the metadata of a field of Arrow."""


def aligned(column: pa.Array, there: pa.DataType, wanted: pa.DataType) -> pa.Array:
    """Return a column of a file with the inner columns of the type ``wanted``. Inner columns that the
    file lacks are null.

    If the names of the file suffice, the column is returned as it is: a cast finds inner columns by
    name.

    Args:
        column: The column.
        there: The type of the column, with the ids of the file.
        wanted: The type in the table, with the ids of the table.
    """
    return column if _has_own_names(there, wanted) else _rebuilt(column, there, wanted)


def _has_own_names(there: pa.DataType, wanted: pa.DataType) -> bool:
    """Return True if names and ids lead to the same inner columns, or the table has no ids."""
    if pa.types.is_struct(wanted):
        if not all(map(_id, wanted)):
            return True
        by_id = {_id(field): field.name for field in there}
        known = {field.name for field in there}
        if any(
            by_id.get(_id(field)) != (field.name if field.name in known else None)
            for field in wanted
        ):
            return False
    return all(
        _has_own_names(own.type, field.type)
        for own, field in _pairs(there, wanted)
        if own is not None
    )


def _pairs(there: pa.DataType, wanted: pa.DataType) -> Iterator[tuple[pa.Field | None, pa.Field]]:
    """Yield the inner columns of the type ``wanted``, each with that of the file."""
    if pa.types.is_struct(wanted):
        known = {_id(field): field for field in there}
        yield from ((known.get(_id(field)), field) for field in wanted)
    elif _has_items(wanted):
        yield _item(there), _item(wanted)


def _has_items(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind))


def _item(kind: pa.DataType) -> pa.Field:
    """Return the field of the items of a list, or of the values of a map."""
    return kind.item_field if pa.types.is_map(kind) else kind.value_field


def _id(field: pa.Field) -> bytes:
    found: bytes = (field.metadata or {}).get(FIELD_ID, b"")
    return found


def _rebuilt(column: pa.Array, there: pa.DataType, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_struct(wanted):
        places = {_id(field): at for at, field in enumerate(there)}
        children = [
            pa.nulls(len(column), field.type)
            if own is None
            else _rebuilt(column.field(places[_id(field)]), own.type, field.type)
            for own, field in _pairs(there, wanted)
        ]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=column.is_null())
    if _has_items(wanted):
        return _with_items(column, there, wanted)
    return column.cast(wanted)


def _with_items(column: pa.Array, there: pa.DataType, wanted: pa.DataType) -> pa.Array:
    """Return a list or a map whose items are rebuilt. A slice has no offsets of its own, so it is
    copied."""
    whole = column.take(pa.array(range(len(column)), pa.int32()))
    field = _item(wanted)
    inner = whole.items if pa.types.is_map(wanted) else whole.values
    items, absent = _rebuilt(inner, _item(there).type, field.type), whole.is_null()
    if pa.types.is_map(wanted):
        keys = whole.keys.cast(wanted.key_type)
        return pa.MapArray.from_arrays(whole.offsets, keys, items, wanted, mask=absent)
    found = pa.ListArray.from_arrays(whole.offsets, items, pa.list_(field), mask=absent)
    return found.cast(wanted)
