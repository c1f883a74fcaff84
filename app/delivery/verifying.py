"""Verify the signature of a webhook request: the receiver's side of ``signing``.

Every signature is compared with every key in constant time, even after a match."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from app.delivery.signing import ID, SIGNATURE, TIMESTAMP, signed_before
from app.model.signing_key import KeyKind, SigningKey
from app.problems import ProblemCode

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

TOLERANCE = 300.0  # seconds by which clocks may differ in either direction
MOST_SIGNATURES = 32
NO_MATCH = "no signature matches: the key is another one, or the body was changed"
_LONGEST_ID = 512
_SCHEMES = {"v1": KeyKind.SECRET, "v1a": KeyKind.PUBLIC}

_Check = Callable[[bytes, bytes], bool]  # signature, content


class Verification(msgspec.Struct, frozen=True):
    """The result of a verification. ``why`` is the explanation for a person, and ``code`` the reason for a program."""

    valid: bool
    why: str
    code: ProblemCode | Literal[""] = ""


MISSING: ProblemCode = "missing-signature"
MALFORMED: ProblemCode = "malformed-signature"
WRONG: ProblemCode = "wrong-signature"
UNTIMELY: ProblemCode = "untimely-signature"


class VerificationFailed(Exception):
    """The request has no valid signature. The message is the explanation, and ``code`` the reason for a program."""

    def __init__(self, code: ProblemCode, why: str) -> None:
        super().__init__(why)
        self.code = code


def verify(
    headers: Sequence[tuple[str, str]],
    body: bytes,
    keys: Sequence[SigningKey],
    now: float,
    tolerance: float = TOLERANCE,
) -> Verification:
    """Verify the signature of a request.

    Args:
        headers: the headers as received, with names in any case.
        body: the body as received.
        keys: the accepted keys. A private key counts as its public one.
        now: the wall clock, in seconds since the epoch.
        tolerance: the seconds by which the timestamp may differ from ``now``.
    """
    try:
        identity = _bounded(_only(headers, ID))
        at = timely(TIMESTAMP, _only(headers, TIMESTAMP), now, tolerance)
        signatures = _signatures(_values(headers, SIGNATURE))
    except VerificationFailed as refusal:
        return Verification(valid=False, why=str(refusal), code=refusal.code)
    return _compared(signatures, signed_before(identity, at) + body, keys)


def _values(headers: Sequence[tuple[str, str]], name: str) -> list[str]:
    values = [value.strip() for header, value in headers if header.lower() == name]
    if not values:
        raise VerificationFailed(MISSING, f"{name} is missing")
    return values


def _only(headers: Sequence[tuple[str, str]], name: str) -> str:
    values = _values(headers, name)
    if len(values) > 1:
        raise VerificationFailed(MALFORMED, f"{name} is repeated")
    return values[0]


def _bounded(identity: str) -> str:
    if not identity or len(identity) > _LONGEST_ID:
        raise VerificationFailed(
            MALFORMED, f"{ID} is empty or longer than {_LONGEST_ID} characters"
        )
    return identity


def timely(name: str, text: str, now: float, tolerance: float) -> str:
    """Return the timestamp ``text`` if it is within ``tolerance`` seconds of ``now``.

    Args:
        name: the header's name, for the error message.
        text: seconds since the epoch.
        now: the wall clock, in seconds since the epoch.
        tolerance: the allowed difference in seconds.

    Raises:
        VerificationFailed: the text is not a whole number, or the difference is too large.
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > 12:  # noqa: PLR2004 - of digits
        raise VerificationFailed(MALFORMED, f"{name} is not a whole number of seconds")
    late = now - int(text)
    if abs(late) > tolerance:
        side = "old" if late > 0 else "ahead"
        raise VerificationFailed(
            UNTIMELY, f"{name} is {abs(late):.0f} s {side}: more than {tolerance:g} s"
        )
    return text


def _signatures(values: Sequence[str]) -> list[tuple[KeyKind, bytes]]:
    """Return the signatures of all values of the header.

    Signatures of unknown schemes are skipped, because a sender may add schemes (Standard Webhooks, "Signature
    scheme"). A proxy may have joined the values with commas."""
    found, why = [], "holds no signature of scheme v1 or v1a"
    for entry in " ".join(values).split():
        scheme, _, encoded = entry.strip(",").partition(",")
        if scheme not in _SCHEMES:
            continue
        try:
            found.append((_SCHEMES[scheme], _bytes(encoded)))
        except ValueError:
            why = "holds a signature that is not base64"
    if not found:
        raise VerificationFailed(MALFORMED, f"{SIGNATURE} {why}")
    if len(found) > MOST_SIGNATURES:
        raise VerificationFailed(
            MALFORMED, f"{SIGNATURE} holds more than {MOST_SIGNATURES} signatures"
        )
    return found


def _bytes(encoded: str) -> bytes:
    """Decode base64 strictly: unused bits must be zero (RFC 4648 3.5), so that bytes have one encoding only."""
    raw = base64.b64decode(encoded, validate=True)
    if base64.b64encode(raw).decode() != encoded:
        raise binascii.Error("bits are left over")
    return raw


def _compared(
    signatures: Sequence[tuple[KeyKind, bytes]], content: bytes, keys: Sequence[SigningKey]
) -> Verification:
    checks = [_check(key) for key in keys]
    tried, matching = 0, 0
    for kind, signature in signatures:
        for wanted, check in checks:
            if kind is wanted:
                tried += 1
                matching += check(signature, content)
    if matching:
        return Verification(valid=True, why=f"signed by {matching} of {len(keys)} keys")
    if not tried:
        return Verification(
            valid=False, why="none of the signatures fits the kind of your keys", code=WRONG
        )
    return Verification(valid=False, why=NO_MATCH, code=WRONG)


def _check(key: SigningKey) -> tuple[KeyKind, _Check]:
    raw = key.raw
    if key.kind is KeyKind.SECRET:
        return KeyKind.SECRET, lambda signature, content: hmac.compare_digest(
            signature, hmac.digest(raw, content, "sha256")
        )
    return KeyKind.PUBLIC, _by(_public(key))


def _public(key: SigningKey) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - as in signing
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

    if key.kind is KeyKind.PRIVATE:
        return Ed25519PrivateKey.from_private_bytes(key.raw[:32]).public_key()
    return Ed25519PublicKey.from_public_bytes(key.raw)


def _by(public: Ed25519PublicKey) -> _Check:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - as in signing

    def check(signature: bytes, content: bytes) -> bool:
        try:
            public.verify(signature, content)
        except InvalidSignature:
            return False
        return True

    return check
