"""Verify ed25519 signatures with the arithmetic of RFC 8032 alone.

No library is used, so the result is an independent check of v1a signatures.
"""

from __future__ import annotations

import hashlib

P = 2**255 - 19
Q = 2**252 + 27742317777372353535851937790883648493  # order of the base point
D = -121665 * pow(121666, P - 2, P) % P
_ROOT = pow(2, (P - 1) // 4, P)  # of -1

Point = tuple[int, int, int, int]
"""A point in extended coordinates (RFC 8032 5.1.4): x = X/Z, y = Y/Z, x * y = T/Z."""


def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return True if the signature is valid: [S]B = R + [k]A (RFC 8032 5.1.7)."""
    a, r = _point(public), _point(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= Q or len(signature) != 64:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % Q
    return _equal(_times(s, _base()), _sum(r, _times(k, a)))


def _base() -> Point:
    y = 4 * pow(5, P - 2, P) % P
    found = _point(y.to_bytes(32, "little"))
    assert found is not None
    return found


def _point(data: bytes) -> Point | None:
    """Decode a point from 32 bytes (RFC 8032 5.1.3). Return None for invalid bytes."""
    number = int.from_bytes(data, "little")
    y, odd = number & (2**255 - 1), number >> 255
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * _ROOT % P
    if (x * x - square) % P or (x == 0 and odd):
        return None
    if x % 2 != odd:
        x = P - x
    return x, y, 1, x * y % P


def _sum(one: Point, other: Point) -> Point:
    """Add two points (RFC 8032 5.1.4)."""
    a = (one[1] - one[0]) * (other[1] - other[0]) % P
    b = (one[1] + one[0]) * (other[1] + other[0]) % P
    c, d = 2 * one[3] * other[3] * D % P, 2 * one[2] * other[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times(scalar: int, point: Point) -> Point:
    found: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            found = _sum(found, point)
        point = _sum(point, point)
        scalar >>= 1
    return found


def _equal(one: Point, other: Point) -> bool:
    x = (one[0] * other[2] - other[0] * one[2]) % P
    y = (one[1] * other[2] - other[1] * one[2]) % P
    return x == 0 == y
