"""Pure. Decode the Content-Encoding of a request body within the bound of bodies.

The decoded content is published, so the header Content-Encoding is not forwarded.
"""

from __future__ import annotations

import zlib

from app.errors import Fault, SenderError
from app.formats import content_coding as codings
from app.gateway.answers import UNSUPPORTED_CODING


def coding_of(value: bytes) -> bytes:
    """Return the coding in a Content-Encoding value, or ``b""`` if there is none. Raise SenderError (415) for
    a coding that is not supported, and for several.
    """
    try:
        return codings.coding_of(value)
    except codings.UnknownCoding:
        raise _unsupported(value) from None


def decode_content(value: bytes, body: bytes, bound: int) -> bytes:
    """Return ``body`` without its coding. Raise SenderError (413) if it would exceed ``bound``
    bytes.
    """
    coding = coding_of(value)
    if not coding or not body:
        return body
    try:
        return codings.undo(coding, body, bound)
    except codings.DecodedTooLarge as error:
        raise SenderError(
            "The decoded body is too large", status=413, code="body-too-large"
        ) from error
    except zlib.error as error:
        raise _broken(coding, error) from error


def _unsupported(value: bytes) -> SenderError:
    shown = value[:60].decode("latin-1")
    fault = Fault(
        UNSUPPORTED_CODING,
        f"Content-Encoding {shown!r} is not supported.",
        "header content-encoding",
    )
    return SenderError(
        "Unsupported content encoding", status=415, code=UNSUPPORTED_CODING, faults=(fault,)
    )


def _broken(coding: bytes, error: zlib.error) -> SenderError:
    detail = f"The body is not {coding.decode()}: {error}."
    fault = Fault("broken-content-encoding", detail, "header content-encoding")
    return SenderError("Broken content encoding", code="broken-content-encoding", faults=(fault,))
