"""The public keys of an issuer of tokens, and signatures by them (RFC 7515, 7517), by ``joserfc``.

Imported where a producer has tokens alone: the library takes 5 MB.
"""

from __future__ import annotations

from typing import Any

import msgspec
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry, deserialize_compact

from app.access.tokens import ALGORITHMS, LONGEST, BadToken, Claims, checked

_KEYS = 100  # of one issuer
_SHORTEST_RSA = 2048  # bits
_Found = OctKey | RSAKey | ECKey | OKPKey
"""As the library has it. A shared secret (``OctKey``) never verifies: see ``Keys``."""


class VerificationKey:
    """A public key. ``kid``: its name, where it has one."""

    def __init__(self, found: _Found) -> None:
        self._found = found
        self.kid = found.kid

    def verify(self, token: bytes, now: float) -> Claims:
        """The claims of a token that it has signed and that holds at ``now``, in seconds since the epoch.
        Raises BadToken."""
        try:
            signed = deserialize_compact(token, self._found, registry=_REGISTRY)
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            raise BadToken("bad-signature", "The signature of the token is wrong.") from error
        return checked(signed.payload, now)

    def told(self) -> Any:
        return self._found.as_dict(private=False)


class _Set(msgspec.Struct):
    keys: list[Any]


class Keys:
    """The public keys of an issuer, out of a JWK Set. Raises ValueError for what is none."""

    def __init__(self, document: bytes) -> None:
        try:
            entries = msgspec.json.decode(document, type=_Set).keys
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ValueError("is no JWK Set") from error
        found = [key for entry in entries[:_KEYS] for key in _imported(entry)]
        if not found:
            raise ValueError("is no JWK Set that can be used: no key in it is readable")
        self._keys = [VerificationKey(key) for key in found if _may_verify(key)]

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keys) and self._told() == other._told()

    __hash__ = None  # type: ignore[assignment]  # compared, never a member of a set

    def named(self, kid: str | None) -> VerificationKey | None:
        """Without a name: the only key, where there is but one."""
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.kid == kid), None)

    def _told(self) -> list[Any]:
        return [key.told() for key in self._keys]


class _Registry(JWSRegistry):
    """The four algorithms. The library warns of the name EdDSA, which most issuers use."""

    max_header_length = 4 << 10
    max_payload_length = LONGEST

    def get_alg(self, name: str) -> Any:
        if name not in ALGORITHMS:
            raise UnsupportedAlgorithmError(name)
        return self.algorithms[name]


_REGISTRY = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


def _imported(entry: Any) -> list[_Found]:
    """None of a kind, a curve or a form that the library does not know: such a key is passed over, for
    the others are as good as before (RFC 7517 5)."""
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
