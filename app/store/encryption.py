"""Secrets at rest: what the store keeps of a credential can be read with the key alone.

Fernet (AES-128-CBC with HMAC-SHA256) of ``cryptography``; two keys while the key changes. The key is
not in the store: whoever has a copy of the database has no credentials by that.
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from app.errors import SkybridgeError

SEALED = "$fernet"
"""The only member of the object that stands in a document in the place of a secret. No attribute, and no
setting, is called so."""


class Unreadable(SkybridgeError):
    """Sealed under a key that we do not have, or changed since."""


def new_key() -> str:
    return Fernet.generate_key().decode()


def is_key(text: str) -> bool:
    try:
        Fernet(text)
    except ValueError:
        return False
    return True


class Vault:
    """``keys``: the present one first, then the one before. Without any it seals nothing."""

    def __init__(self, keys: Sequence[str]) -> None:
        fernets = [Fernet(key) for key in keys]
        self._present = fernets[0] if fernets else None
        self._all = MultiFernet(fernets) if fernets else None

    @property
    def locked(self) -> bool:
        """Whether there is no key."""
        return self._present is None

    def seal(self, text: str) -> dict[str, str]:
        if self._present is None:
            raise Unreadable("there is no key to seal with")
        return {SEALED: self._present.encrypt(text.encode()).decode()}

    def open(self, sealed: dict[str, str]) -> str:
        """Raises Unreadable. What it says holds nothing of the secret."""
        if self._all is None:
            raise Unreadable("there is no key to read it with")
        try:
            return self._all.decrypt(sealed[SEALED]).decode()
        except InvalidToken:
            raise Unreadable("it was sealed under another key") from None

    def is_present(self, sealed: dict[str, str]) -> bool:
        """Whether the present key reads it: one under the key before is to be sealed anew."""
        try:
            if self._present is not None:
                self._present.decrypt(sealed[SEALED])
                return True
        except InvalidToken:
            pass
        return False


def is_sealed(value: object) -> bool:
    return isinstance(value, dict) and set(value) == {SEALED}
