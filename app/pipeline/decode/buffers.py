"""Arrow's arrays as numbers, and back: places are taken, not copied one by one. Offsets have 32 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[Any]
"""Of one dimension, unless told."""


def offsets_of(array: pa.Array) -> Numbers:
    """Where each value of a binary array begins in its octets, and where the last ends."""
    if not len(array):
        return np.zeros(1, np.int32)
    found = np.frombuffer(array.buffers()[1], np.int32)
    return found[array.offset : array.offset + len(array) + 1]


def octets_of(array: pa.Array) -> Numbers:
    """All octets of the buffer of a binary array, to which its offsets point."""
    octets = array.buffers()[2] if len(array) else None
    return np.zeros(0, np.uint8) if octets is None else np.frombuffer(octets, np.uint8)


def validity_of(array: pa.Array) -> Numbers:
    """Which values are there."""
    found: Numbers = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def as_text(array: pa.Array) -> pa.Array:
    """Binary that is known to be UTF-8: the very same buffers."""
    valid, offsets, octets = array.buffers()
    return pa.StringArray.from_buffers(
        len(array), offsets, octets, valid, array.null_count, array.offset
    )


def as_bytes(array: pa.Array) -> pa.Array:
    """The octets of texts: the very same buffers."""
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(array), array.buffers(), array.null_count, array.offset
    )


def is_utf8(array: pa.Array) -> bool:
    """Whether all values of a binary array are."""
    try:
        array.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def binary_array(offsets: Numbers, octets: Any) -> pa.Array:
    """Values that lie one behind the other in ``octets``; ``offsets`` has one more than they are."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int32)), pa.py_buffer(octets)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def joined(values: Sequence[Any]) -> pa.Array:
    """Octets of any kind as one binary array."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=offsets[1:])
    return binary_array(offsets, b"".join(values))


def nulled(array: pa.Array, there: Numbers) -> pa.Array:
    """The same buffers, null where it is not ``there``."""
    if there.all():
        return array
    there = there & validity_of(array) if array.null_count else there
    bits = np.concatenate([np.ones(array.offset, bool), there])
    valid = pa.py_buffer(np.packbits(bits, bitorder="little"))
    buffers = [valid, *array.buffers()[1:]]
    return pa.BinaryArray.from_buffers(pa.binary(), len(array), buffers, offset=array.offset)


def is_text(data: bytes | None) -> bool:
    """Whether octets are UTF-8; yes for none at all."""
    try:
        return data is None or data.decode() is not None
    except UnicodeDecodeError:
        return False


def taken(array: pa.Array, at: Numbers) -> pa.Array:
    """The values at these places; null for a place below zero."""
    missing = at < 0
    return array.take(pa.array(at, mask=missing) if missing.any() else pa.array(at))


def answers(texts: pa.Array, ask: Callable[[bytes], int], missing: int) -> Numbers:
    """``ask`` of each text, once for each that differs; ``missing`` for a null."""
    coded = texts.dictionary_encode()
    found = np.array([*map(ask, coded.dictionary.to_pylist()), missing], np.int8)
    codes = coded.indices
    chosen: Numbers = found[
        (codes.fill_null(len(found) - 1) if codes.null_count else codes).to_numpy()
    ]
    return chosen
