"""The public keys of a token issuer, and the verification of signatures with them (RFC 7515, 7517),
by ``joserfc``.

The module is imported only if a producer uses tokens, because the library takes 5 MB of memory.
"""

from __future__ import annotations

from typing import Any

import msgspec
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry, deserialize_compact

from app.access.tokens import ALGORITHMS, LONGEST, BadToken, Claims, checked_claims

_KEYS = 100  # largest number of keys of one issuer
_SHORTEST_RSA = 2048  # bits
_Found = OctKey | RSAKey | ECKey | OKPKey
"""A key as the library ``joserfc`` represents it. A shared secret (``OctKey``) is never used, because
``Keys`` selects public keys only.
"""


class VerificationKey:
    """A public key of an issuer. ``kid`` is the id of the key; None if it has none."""

    def __init__(self, found: _Found) -> None:
        self._found = found
        self.kid = found.kid

    def verify(self, token: bytes, now: float) -> Claims:
        """Return the claims of a token that this key has signed and that is valid now.

        Args:
            token: The token.
            now: The time in seconds since the epoch.

        Raises:
            BadToken: The signature is wrong, or the token is not valid now.
        """
        try:
            signed = deserialize_compact(token, self._found, registry=_REGISTRY)
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            raise BadToken("bad-signature", "The signature of the token is wrong.") from error
        return checked_claims(signed.payload, now)

    def as_jwk(self) -> Any:
        """Return the key as a JSON Web Key, for comparison."""
        return self._found.as_dict(private=False)


class _Set(msgspec.Struct):
    keys: list[Any]


class Keys:
    """The public keys of an issuer that may verify tokens."""

    def __init__(self, document: bytes) -> None:
        """Read a JWK Set.

        Raises:
            ValueError: The document is not a JWK Set, or has no readable key.
        """
        try:
            entries = msgspec.json.decode(document, type=_Set).keys
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ValueError("is not a JWK Set") from error
        found = [key for entry in entries[:_KEYS] for key in _import_key(entry)]
        if not found:
            raise ValueError("is not a JWK Set that can be used: no key in it is readable")
        self._keys = [VerificationKey(key) for key in found if _may_verify(key)]

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keys) and self._jwks() == other._jwks()

    __hash__ = None  # type: ignore[assignment]  # compared, never hashed

    def named(self, kid: str | None) -> VerificationKey | None:
        """Return the key with this id. If the token has no key id, return the only key; None if there are
        several.
        """
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.kid == kid), None)

    def _jwks(self) -> list[Any]:
        return [key.as_jwk() for key in self._keys]


class _Registry(JWSRegistry):
    """The registry of the four permitted signature algorithms. The library's own registry would log a warning
    for the name EdDSA, which most issuers use.
    """

    max_header_length = 4 << 10
    max_payload_length = LONGEST

    def get_alg(self, name: str) -> Any:
        if name not in ALGORITHMS:
            raise UnsupportedAlgorithmError(name)
        return self.algorithms[name]


_REGISTRY = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


def _import_key(entry: Any) -> list[_Found]:
    """Return a list with the key of a JWK Set entry. The list is empty if the library does not know the kind,
    curve or form of the key.

    An unknown key is ignored, because the other keys of the set can be used (RFC 7517 5).
    """
    try:
        return list(KeySet.import_key_set({"keys": [entry]}).keys)
    except (JoseError, ValueError, LookupError, TypeError, AttributeError):
        return []


def _may_verify(key: Any) -> bool:
    if key.get("use", "sig") != "sig":
        return False
    if isinstance(key, RSAKey):
        return int(key.public_key.key_size) >= _SHORTEST_RSA
    return isinstance(key, ECKey | OKPKey)
