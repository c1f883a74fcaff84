"""Sign webhooks by Standard Webhooks 1.0: v1 (HMAC-SHA256) and v1a (ed25519).

The signed content is the id, the time of the attempt and the body, joined by full stops. The headers of an event in
binary mode are not covered. Therefore signed subscriptions use structured mode by default (ADR 0015)."""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from collections.abc import Callable, Sequence

from app.bindings.record import Decoded
from app.event.memo import Memo
from app.model.signing_key import KeyKind, SigningKey

NAMES = ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
"""The names of the signature headers, in the order of their values."""

Signer = Callable[[bytes, bytes], str]
"""A function that signs a prefix and a body, and returns one signature as the header has it: ``v1,<base64>``."""

_BLOCK = 64  # bytes of a SHA-256 block, and of the longest secret
_PADS = (0x36, 0x5C)  # RFC 2104 2
_SEED = 32  # bytes of a private key; its public half may follow
_DIGITS = 32  # hexadecimal digits of an id, 128 bits


def signer(key: SigningKey) -> Signer:
    """Return the signing function of a key.

    Raises:
        ValueError: the key is public, or the halves of a private key do not belong together.
    """
    raw = key.raw
    if key.kind is KeyKind.SECRET:
        return _keyed(raw)
    if key.kind is KeyKind.PRIVATE:
        return _private(raw)
    raise ValueError("a public key cannot sign: give the private key, whsk_")


def _private(raw: bytes) -> Signer:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - 7 MB, and few keys are of this kind
        Ed25519PrivateKey,
    )

    private = Ed25519PrivateKey.from_private_bytes(raw[:_SEED])
    if raw[_SEED:] not in {b"", private.public_key().public_bytes_raw()}:
        raise ValueError("its public half belongs to another key")
    sign = private.sign
    return lambda before, body: "v1a," + _text(sign(before + body))


def _keyed(raw: bytes) -> Signer:
    """Return an HMAC-SHA256 signer that hashes the key once. Python's ``hmac.digest`` would hash the key for
    each content."""
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
    """Return the values of the headers ``NAMES``, with one signature per key.

    Several keys are used while keys change: a receiver may have either the old or the new key.

    Args:
        signers: the signing functions of the keys.
        identity: the id of the delivery.
        at: the time of this attempt, in seconds since the epoch.
        body: the body of the request.
    """
    before = signed_before(identity, at)
    if len(signers) == 1:
        return identity, at, signers[0](before, body)
    return identity, at, " ".join([sign(before, body) for sign in signers])


def signed_before(identity: str, at: str) -> bytes:
    """Return the signed content that precedes the body: the id and the time."""
    return f"{identity}.{at}.".encode()


def webhook_id(decoded: Decoded) -> str:
    """Return the id of a delivery, the same on each attempt and after a restart.

    It is a digest of source and id, which together identify an event (CloudEvents core 1.1). It has no full
    stop, because full stops separate the signed content. If source and id of a document cannot be read, the
    digest is that of its bytes."""
    attributes = decoded.event.attributes
    source, identity = attributes.get("source"), attributes.get("id")
    if source is None or identity is None:
        return _identity(_DOCUMENT, decoded.document or decoded.event.data or b"")
    return _identity(_SOURCES[source], identity.encode())


def joint_id(identities: Sequence[str]) -> str:
    """Return the id of a batch request, made of the ids of its events in their order.

    A receiver should not deduplicate by this id, because an event may be sent again in another batch. It
    should deduplicate by source and id of each event."""
    if len(identities) == 1:
        return identities[0]
    return _identity(_TOGETHER, "\n".join(identities).encode())


def _identity(begun: hashlib._Hash, rest: bytes) -> str:
    digest = begun.copy()
    digest.update(rest)
    return "msg_" + digest.hexdigest()[:_DIGITS]


def _named(source: str) -> hashlib._Hash:
    """Return a hash that begins with the length of the source and the source. With the length, source and id
    cannot be confused."""
    name = source.encode()
    return hashlib.sha256(b"%d:%b" % (len(name), name))


# Copying a started digest costs half of a new one, for which OpenSSL looks up the algorithm.
_SOURCES = Memo(_named)
_DOCUMENT, _TOGETHER = hashlib.sha256(b"document:"), hashlib.sha256(b"together:")


def _text(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).decode()
