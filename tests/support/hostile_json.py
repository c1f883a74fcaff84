"""JSON that follows the grammar but is hard to read: with unpaired surrogate escapes, and numbers
too large for a double."""

from __future__ import annotations

from hypothesis import strategies as st

STRINGS = (
    rb'"\ud83d"', rb'"cut \uD83D"', rb'"\ude00\ud83d"', rb'"\ud83d\ud83d\ude00"', rb'"\ud83d\u0041"',
    rb'"\\\udfff\\"', rb'"\\ud83d\udc00\""', '"é\\udead€"'.encode(),
)  # fmt: skip
NUMBERS = (
    b"1e400",
    b"-1E+99999999999999999999",
    b"-0",
    b"9" * 5000,
    b"0." + b"1" * 400,
    b"1e-9999",
)
VALUES = (
    *STRINGS, *NUMBERS, rb'{"\ud83d":1,"k":"v"}', rb'{ "a" : ["\ud83d" , {"\uDFFF" : 1e400} ], "a" : 1 }',
    rb'[ "\ud83d" ,1]',
)  # fmt: skip

NOT_JSON = (
    rb'"\ud83d', rb'{"\ud83d":NaN}', rb'["\ud83d",Infinity]', rb'["\ud83d",01]', rb'{"a":"\ud83d",}',
    rb'["\ud83d" "x"]', b'["\\ud83d","\x01"]', rb'["\ud83d","\x"]', rb'["\ud83d"]]', rb'"\\\\ud83d" 1',
    rb'{"\ud83d" 1}', rb'"\ud83"', b'"\\ud83d\xff\xfe"',
)  # fmt: skip

_PIECES = st.sampled_from(
    [rb"\ud83d", rb"\uD83D", rb"\ude00", rb"\uDFff", rb"\ud800", rb"\\", rb"\"", rb"\/", rb"\u0041",
     rb"\u00e9", rb"\n", b"u", b"d83d", b"x", b" ", b":", b",", b"{", b"]", "é".encode(), "😀".encode()]
)  # fmt: skip
strings = st.lists(_PIECES, max_size=6).map(lambda pieces: b'"%b"' % b"".join(pieces))
numbers = st.sampled_from(NUMBERS) | st.integers().map(lambda number: b"%d" % number)
_space = st.sampled_from([b"", b" ", b"\n\t", b"\r\n"])


def _array(items: list[bytes], space: bytes) -> bytes:
    return b"[" + space + (space + b"," + space).join(items) + space + b"]"


def _object(members: list[tuple[bytes, bytes]], space: bytes) -> bytes:
    inner = _array([name + space + b":" + space + value for name, value in members], space)
    return b"{" + inner[1:-1] + b"}"


values = st.recursive(
    strings | numbers | st.sampled_from([b"null", b"true", b"false"]),
    lambda inner: (
        st.builds(_array, st.lists(inner, max_size=4), _space)
        | st.builds(_object, st.lists(st.tuples(strings, inner), max_size=4), _space)
    ),
    max_leaves=10,
)
"""A strategy for documents of hostile strings and numbers."""
