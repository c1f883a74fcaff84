"""Keys of Standard Webhooks as text: a prefix that names their kind, and base64.

==========  ====================================  ==================================
prefix      kind                                  bytes
==========  ====================================  ==================================
``whsec_``  shared secret of HMAC-SHA256          24 to 64
``whsk_``   private key of ed25519                32, or 64 followed by its public half
``whpk_``   public key of ed25519                 32
==========  ====================================  ==================================

No message repeats a key.
"""

from __future__ import annotations

import base64
import binascii
import enum

import msgspec


class KeyKind(enum.Enum):
    """The kind of a key. Each value is its prefix."""

    SECRET = "whsec_"  # noqa: S105 - a prefix
    PRIVATE = "whsk_"
    PUBLIC = "whpk_"


_SIZES = {
    KeyKind.SECRET: range(24, 65),
    KeyKind.PRIVATE: (32, 64),
    KeyKind.PUBLIC: (32,),
}


class SigningKey(msgspec.Struct, frozen=True):
    """A key of Standard Webhooks. Its repr shows no part of the key.

    Attributes:
        kind: The kind of the key.
        raw: The bytes that follow the prefix, decoded.
    """

    kind: KeyKind
    raw: bytes

    def __repr__(self) -> str:
        return f"Key({self.kind.name})"


def read_key(text: str) -> SigningKey:
    """Return the key that a text means. Raises ValueError if it is none of the three kinds."""
    kind = next((kind for kind in KeyKind if text.startswith(kind.value)), None)
    if kind is None:
        raise ValueError("The key does not begin with whsec_, whsk_ or whpk_.")
    try:
        raw = base64.b64decode(text.removeprefix(kind.value), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(
            f"The text of the key after the prefix {kind.value} is not base64."
        ) from None
    if len(raw) not in _SIZES[kind]:
        raise ValueError(
            f"The key has {len(raw)} bytes, which is a wrong length for the prefix {kind.value}."
        )
    return SigningKey(kind, raw)


def write_key(key: SigningKey) -> str:
    """Return the key as text."""
    return key.kind.value + base64.b64encode(key.raw).decode()
