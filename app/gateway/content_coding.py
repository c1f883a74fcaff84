"""Content-Encoding of a request body, undone under the body bound (reliability S7). Pure.

The coding ends here: what is published is the content, and the header is not forwarded.
"""

from __future__ import annotations

import zlib

from app.errors import Fault, SenderError
from app.formats.deflated import GZIP, RAW, ZLIB, TooLarge, inflate
from app.gateway.answers import UNSUPPORTED_CODING

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
    wbits = GZIP if coding != b"deflate" else _deflate_form(body)
    try:
        return bytes(inflate(body, bound, wbits))
    except TooLarge as error:
        raise SenderError(
            "The decoded body is too large", status=413, code="body-too-large"
        ) from error
    except zlib.error as error:
        raise _broken(coding, error) from error


def _deflate_form(body: bytes) -> int:
    """``deflate`` is zlib (RFC 9110 8.4.1.2); some senders leave the wrapper out."""
    is_zlib = len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0  # noqa: PLR2004 - RFC 1950 2.2
    return ZLIB if is_zlib else RAW


def _unsupported(value: bytes) -> SenderError:
    shown = value[:60].decode("latin-1")
    fault = Fault(
        UNSUPPORTED_CODING, f"Content-Encoding {shown!r} is not known.", "header content-encoding"
    )
    return SenderError(
        "Unsupported content encoding", status=415, code=UNSUPPORTED_CODING, faults=(fault,)
    )


def _broken(coding: bytes, error: zlib.error) -> SenderError:
    detail = f"The body is not {coding.decode()}: {error}."
    fault = Fault("broken-content-encoding", detail, "header content-encoding")
    return SenderError("Broken content encoding", code="broken-content-encoding", faults=(fault,))
