"""Content-Encoding of a request body, undone under the body bound (reliability S7). Pure.

The coding ends here: what is published is the content, and the header is not forwarded.
"""

from __future__ import annotations

import zlib

from app.errors import Fault, SenderError
from app.gateway.answers import UNSUPPORTED_CODING

_GZIP = 16 + zlib.MAX_WBITS
_ZLIB = zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS
_PIECE = 4096
_MEMBERS = 1000  # of a gzip body, at most: each costs, also when it is empty
_SUPPORTED = frozenset({b"gzip", b"x-gzip", b"deflate"})


def coding_of(value: bytes) -> bytes:
    """The one coding to undo; ``b""`` for none. Raises SenderError (415) for any other."""
    codings = [part.strip() for part in value.lower().split(b",")]
    codings = [coding for coding in codings if coding not in (b"", b"identity")]
    if not codings:
        return b""
    if len(codings) > 1 or codings[0] not in _SUPPORTED:
        raise _unsupported(value)
    return codings[0]


def decode_content(value: bytes, body: bytes, bound: int) -> bytes:
    """``body`` without its coding. Never makes more than ``bound`` bytes (413)."""
    coding = coding_of(value)
    if not coding or not body:
        return body
    wbits = _GZIP if coding != b"deflate" else _deflate_form(body)
    try:
        return _inflate(body, wbits, bound)
    except zlib.error as error:
        raise _broken(coding, error) from error


def _inflate(body: bytes, wbits: int, bound: int) -> bytes:
    """All members of a gzip body (RFC 1952 2.2), the one stream of a deflate body. In pieces: zlib
    copies what it leaves over.
    """
    content = bytearray()
    view, at, members = memoryview(body), 0, 0
    while at < len(body):
        members += 1
        if members > _MEMBERS:
            raise zlib.error(f"it has more than {_MEMBERS} gzip members")
        stream = zlib.decompressobj(wbits)
        while not stream.eof and at < len(body):
            piece = view[at : at + _PIECE]
            content += stream.decompress(piece, bound + 1 - len(content))
            if len(content) > bound:
                raise _too_large()
            at += len(piece) - len(stream.unused_data)
        if not stream.eof or (at < len(body) and wbits != _GZIP):
            raise zlib.error("incomplete stream or something behind it")
    return bytes(content)


def _deflate_form(body: bytes) -> int:
    """``deflate`` is zlib (RFC 9110 8.4.1.2); some senders leave the wrapper out."""
    is_zlib = len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0  # noqa: PLR2004 - RFC 1950 2.2
    return _ZLIB if is_zlib else _RAW


def _unsupported(value: bytes) -> SenderError:
    shown = value[:60].decode("latin-1")
    fault = Fault(
        UNSUPPORTED_CODING, f"Content-Encoding {shown!r} is not known.", "header content-encoding"
    )
    return SenderError(
        "Unsupported content encoding", status=415, code=UNSUPPORTED_CODING, faults=(fault,)
    )


def _too_large() -> SenderError:
    return SenderError("The decoded body is too large", status=413, code="body-too-large")


def _broken(coding: bytes, error: zlib.error) -> SenderError:
    detail = f"The body is not {coding.decode()}: {error}."
    fault = Fault("broken-content-encoding", detail, "header content-encoding")
    return SenderError("Broken content encoding", code="broken-content-encoding", faults=(fault,))
