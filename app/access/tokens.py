"""Read JSON Web Tokens of OpenID Connect issuers and check their claims (RFC 7515, 7519, 8725).

Only RS256, ES256 and EdDSA (named Ed25519 in RFC 9864) are permitted. ``none`` is refused, and so
is HS256, because its "secret" would be the public key. The module ``signatures`` verifies
signatures.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import msgspec

ALGORITHMS = ("RS256", "ES256", "EdDSA", "Ed25519")
SKEW = 60.0  # seconds by which the clocks of issuer and Skybridge may differ
LONGEST = 16 << 10  # bytes of a token
_PARTS = 3

_TIMES = (-1e12, 1e12)  # exclusive bounds of times in a token, in seconds since the epoch

Claims = Mapping[str, Any]


class BadToken(Exception):
    """The error of a refused token.

    Attributes:
        code: The kebab-case code of the cause. The message is one sentence without any part of the
            token.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Head(NamedTuple):
    """The fields of a token that can be read before its signature is verified: algorithm, key id and
    issuer."""

    algorithm: str
    key: str | None
    issuer: str


def read_head(token: bytes) -> Head:
    """Return algorithm, key id and issuer of a token. The signature is not verified.

    Raises:
        BadToken: The token is malformed, or its algorithm is not permitted.
    """
    parts = token.split(b".")
    if len(parts) != _PARTS or len(token) > LONGEST:
        raise BadToken("malformed-token", "The token is no signed JSON Web Token.")
    header, claims = _object(parts[0]), _object(parts[1])
    algorithm, kid, issuer = header.get("alg"), header.get("kid"), claims.get("iss")
    if algorithm not in ALGORITHMS:
        raise BadToken("token-algorithm", f"The token is not signed by {', '.join(ALGORITHMS)}.")
    if "crit" in header:  # names extensions that a recipient must support (RFC 7515 4.1.11)
        raise BadToken("malformed-token", "The token demands extensions (crit), and none is known.")
    if not isinstance(issuer, str) or not isinstance(kid, str | None):
        raise BadToken("malformed-token", "The token names no issuer, or its kid is no text.")
    return Head(algorithm, kid, issuer)


def checked_claims(payload: bytes, now: float) -> Claims:
    """Return the claims of a token with a verified signature, if they are valid now.

    Args:
        payload: The payload of the token.
        now: The time in seconds since the epoch.

    Raises:
        BadToken: The payload is malformed, or the token is expired or not yet valid.
    """
    claims = _claims(payload)
    _check_times(claims, now)
    return claims


def ends_at(claims: Claims) -> float:
    """Return the time from which a verified token is refused, in seconds since the epoch."""
    return float(claims["exp"]) + SKEW


def _check_times(claims: Claims, now: float) -> None:
    for name in ("exp", "nbf", "iat"):
        value = claims.get(name)
        if name not in claims and name != "exp":
            continue
        if not _is_time(value):
            raise BadToken("malformed-token", f"Claim {name} of the token is no time.")
        if name == "exp" and now >= value + SKEW:
            raise BadToken("expired-token", "The token has expired.")
        if name != "exp" and now < value - SKEW:
            raise BadToken("early-token", f"The token does not hold yet: {name} is in the future.")


def _is_time(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return _TIMES[0] < value < _TIMES[1]


def _object(part: bytes) -> dict[str, Any]:
    try:
        padded = part + b"=" * (-len(part) % 4)
        return _claims(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError) as error:
        raise BadToken("malformed-token", "The token is no signed JSON Web Token.") from error


def _claims(payload: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, ValueError) as error:
        raise BadToken("malformed-token", "A part of the token is no JSON object.") from error


def only_match(found: Sequence[Any], what: str) -> Any:
    """Return the only element of ``found``. ``what`` names the elements in the error.

    Raises:
        BadToken: There is none, or there are several, so that it is unclear which rights apply.
    """
    if len(found) == 1:
        return found[0]
    if found:
        raise BadToken("ambiguous-credential", f"The {what} matches several producers.")
    raise BadToken("unknown-credential", f"The {what} matches no producer.")
