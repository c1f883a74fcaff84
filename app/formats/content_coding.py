"""Content codings (RFC 9110 8.4) of request bodies and of messages, undone under a bound. Pure."""

from __future__ import annotations

from app.formats.deflated import GZIP, RAW, ZLIB, inflate

_SUPPORTED = frozenset({b"gzip", b"x-gzip", b"deflate"})


class UnknownCoding(ValueError):
    """A coding that is not undone here, or several."""


def coding_of(value: bytes) -> bytes:
    """Return the one coding to undo; ``b""`` for none. Raises UnknownCoding for any other."""
    codings = [part.strip() for part in value.lower().split(b",")]
    codings = [coding for coding in codings if coding not in (b"", b"identity")]
    if not codings:
        return b""
    if len(codings) > 1 or codings[0] not in _SUPPORTED:
        raise UnknownCoding
    return codings[0]


def undo(coding: bytes, body: bytes, bound: int) -> bytes:
    """Return ``body`` without its coding. Raises TooLarge beyond ``bound`` bytes, and zlib.error for what no
    coder wrote."""
    wbits = GZIP if coding != b"deflate" else _deflate_form(body)
    return bytes(inflate(body, bound, wbits))


def _deflate_form(body: bytes) -> int:
    """``deflate`` is zlib (RFC 9110 8.4.1.2); some senders leave the wrapper out."""
    is_zlib = len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0  # noqa: PLR2004 - RFC 1950 2.2
    return ZLIB if is_zlib else RAW
