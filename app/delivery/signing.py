"""Signatures of webhooks after Standard Webhooks 1.0: v1 (HMAC-SHA256) and v1a (ed25519).

What is signed is the identity, the time of the attempt and the body, joined by dots: the headers of an
event in binary mode are not covered, which is why signed subscriptions write documents unless they
say otherwise (ADR 0015).
"""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from collections.abc import Callable, Sequence

from app.bindings.record import Decoded
from app.event.memo import Memo
from app.model.signing_key import KeyKind, SigningKey

NAMES = ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
"""Of the headers of a signature, in the order of their values."""

Signer = Callable[[bytes, bytes], str]
"""From what is signed before the body, and the body, to one signature as the header holds it: ``v1,<base64>``."""

_BLOCK = 64  # bytes of SHA-256, and the most of a secret
_PADS = (0x36, 0x5C)  # RFC 2104 2
_SEED = 32  # bytes of a private key; what stands behind them is its public half
_DIGITS = 32  # of the identity, 128 bits


def signer(key: SigningKey) -> Signer:
    """Raises ValueError for a public key, which signs nothing, and for halves that do not belong together."""
    raw = key.raw
    if key.kind is KeyKind.SECRET:
        return _keyed(raw)
    if key.kind is KeyKind.PRIVATE:
        return _private(raw)
    raise ValueError("a public key signs nothing: give the private one, whsk_")


def _private(raw: bytes) -> Signer:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - 7 MB, and few keys are of this kind
        Ed25519PrivateKey,
    )

    private = Ed25519PrivateKey.from_private_bytes(raw[:_SEED])
    if raw[_SEED:] not in {b"", private.public_key().public_bytes_raw()}:
        raise ValueError("its public half is another key's")
    sign = private.sign
    return lambda before, body: "v1a," + _text(sign(before + body))


def _keyed(raw: bytes) -> Signer:
    """HMAC-SHA256 with the key digested once: ``hmac.digest`` digests it for each content."""
    key = raw.ljust(_BLOCK, b"\0")
    inner, outer = (hashlib.sha256(bytes(byte ^ pad for byte in key)) for pad in _PADS)

    def sign(before: bytes, body: bytes) -> str:
        first, second = inner.copy(), outer.copy()
        first.update(before)
        first.update(body)
        second.update(first.digest())
        return "v1," + _text(second.digest())

    return sign


def signature_values(
    signers: Sequence[Signer], identity: str, at: str, body: bytes
) -> tuple[str, str, str]:
    """The headers ``NAMES``. One signature a key, so that receivers may have the old one or the new one.

    ``at``  seconds since the epoch, of this attempt.
    """
    before = signed_before(identity, at)
    if len(signers) == 1:
        return identity, at, signers[0](before, body)
    return identity, at, " ".join([sign(before, body) for sign in signers])


def signed_before(identity: str, at: str) -> bytes:
    """What stands before the body in what is signed."""
    return f"{identity}.{at}.".encode()


def webhook_id(decoded: Decoded) -> str:
    """Equal on every attempt and after every restart: a digest of source and id, which only together
    name an event (core 1.1). Without a dot, which the signed content is joined by.

    A document that nobody here reads is named by its own bytes.
    """
    attributes = decoded.event.attributes
    source, identity = attributes.get("source"), attributes.get("id")
    if source is None or identity is None:
        return _identity(_DOCUMENT, decoded.document or decoded.event.data or b"")
    return _identity(_SOURCES[source], identity.encode())


def joint_id(identities: Sequence[str]) -> str:
    """Of a request of several events, in their order. A receiver that tells repetitions by it alone sees none when
    the same events come in other company: their own source and id do."""
    if len(identities) == 1:
        return identities[0]
    return _identity(_TOGETHER, "\n".join(identities).encode())


def _identity(begun: hashlib._Hash, rest: bytes) -> str:
    digest = begun.copy()
    digest.update(rest)
    return "msg_" + digest.hexdigest()[:_DIGITS]


def _named(source: str) -> hashlib._Hash:
    """Of a source, with its length, so that none runs into an id."""
    name = source.encode()
    return hashlib.sha256(b"%d:%b" % (len(name), name))


# A copy of a digest that was begun costs half of a new one: OpenSSL looks for the algorithm each time.
_SOURCES = Memo(_named)
_DOCUMENT, _TOGETHER = hashlib.sha256(b"document:"), hashlib.sha256(b"together:")


def _text(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).decode()
