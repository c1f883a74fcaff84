"""Arrow arrays as NumPy arrays and back, without copying each value. Offsets have 32 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[Any]
"""A NumPy array, of one dimension unless stated otherwise."""


def offsets_of(array: pa.Array) -> Numbers:
    """Return the offset of each value of a binary array in its data buffer, and the end of the last
    value.
    """
    if not len(array):
        return np.zeros(1, np.int32)
    found = np.frombuffer(array.buffers()[1], np.int32)
    return found[array.offset : array.offset + len(array) + 1]


def octets_of(array: pa.Array) -> Numbers:
    """Return all bytes of the data buffer of a binary array, to which its offsets refer."""
    octets = array.buffers()[2] if len(array) else None
    return np.zeros(0, np.uint8) if octets is None else np.frombuffer(octets, np.uint8)


def validity_of(array: pa.Array) -> Numbers:
    """Return an array that is True where a value is not null."""
    found: Numbers = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def as_text(array: pa.Array) -> pa.Array:
    """Return a binary array that is known to be UTF-8 as a string array with the same buffers."""
    valid, offsets, octets = array.buffers()
    return pa.StringArray.from_buffers(
        len(array), offsets, octets, valid, array.null_count, array.offset
    )


def as_bytes(array: pa.Array) -> pa.Array:
    """Return the bytes of a string array as a binary array with the same buffers."""
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(array), array.buffers(), array.null_count, array.offset
    )


def is_utf8(array: pa.Array) -> bool:
    """Return True if all values of a binary array are UTF-8."""
    try:
        array.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def binary_array(offsets: Numbers, octets: Any) -> pa.Array:
    """Return a binary array of the values in ``octets``. ``offsets`` has the start of each value
    and the end of the last.
    """
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int32)), pa.py_buffer(octets)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def ends_of(values: Sequence[Any]) -> Numbers:
    """Return the end of each value in the concatenation of all values, with a leading zero."""
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=ends[1:])
    return ends


def binary_array_of(values: Sequence[Any]) -> pa.Array:
    """Return a binary array of these bytes-like values."""
    return binary_array(ends_of(values), b"".join(values))


def with_nulls(array: pa.Array, there: Numbers) -> pa.Array:
    """Return the array with the same buffers and a null wherever ``there`` is False."""
    if there.all():
        return array
    there = there & validity_of(array) if array.null_count else there
    bits = np.concatenate([np.ones(array.offset, bool), there])
    valid = pa.py_buffer(np.packbits(bits, bitorder="little"))
    buffers = [valid, *array.buffers()[1:]]
    return pa.BinaryArray.from_buffers(pa.binary(), len(array), buffers, offset=array.offset)


def is_text(data: bytes | None) -> bool:
    """Return True if the bytes are UTF-8 or None."""
    try:
        return data is None or data.decode() is not None
    except UnicodeDecodeError:
        return False


def take_or_null(array: pa.Array, at: Numbers) -> pa.Array:
    """Return the values at these indexes; null for a negative index."""
    missing = at < 0
    return array.take(pa.array(at, mask=missing) if missing.any() else pa.array(at))


def map_distinct(texts: pa.Array, ask: Callable[[bytes], int], missing: int) -> Numbers:
    """Return the result of ``ask`` for each text, calling it once for each distinct text. A null
    gives ``missing``.
    """
    coded = texts.dictionary_encode()
    found = np.array([*map(ask, coded.dictionary.to_pylist()), missing], np.int8)
    codes = coded.indices
    chosen: Numbers = found[
        (codes.fill_null(len(found) - 1) if codes.null_count else codes).to_numpy()
    ]
    return chosen
