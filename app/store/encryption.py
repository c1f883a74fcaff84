"""Encrypt credentials in the store, so that only the key can read them.

The encryption is Fernet (AES-128-CBC with HMAC-SHA256) of ``cryptography``, with two keys while the key is rotated.
The key is not in the store, so a copy of the database contains no readable credentials."""

# ruff: noqa: PLC0415 - cryptography takes 7 MB, and few stores are encrypted

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.errors import SkybridgeError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet

SEALED = "$fernet"
"""The only member of the JSON object that replaces a secret in a document. No setting has this name."""


class SecretUnreadable(SkybridgeError):
    """The error for a secret that was encrypted with an unknown key, or that was changed."""


def new_key() -> str:
    """Return a new random key."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def is_key(text: str) -> bool:
    """Return True if the text is a valid key."""
    from cryptography.fernet import Fernet

    try:
        Fernet(text)
    except ValueError:
        return False
    return True


class Vault:
    """Encrypts and decrypts secrets.

    Args:
        keys: the current key, then the previous one. Without keys nothing can be encrypted.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._present: Fernet | None = None
        self._all: MultiFernet | None = None
        if keys:
            from cryptography.fernet import Fernet, MultiFernet

            fernets = [Fernet(key) for key in keys]
            self._present, self._all = fernets[0], MultiFernet(fernets)

    @property
    def locked(self) -> bool:
        """Return True if there is no key."""
        return self._present is None

    def seal(self, text: str) -> dict[str, str]:
        """Encrypt a secret, and return the object that replaces it in a document."""
        if self._present is None:
            raise SecretUnreadable("there is no key to encrypt it with")
        return {SEALED: self._present.encrypt(text.encode()).decode()}

    def open(self, sealed: dict[str, str]) -> str:
        """Decrypt a secret. Raise Unreadable if no key fits; the message contains nothing of the secret."""
        if self._all is None:
            raise SecretUnreadable("there is no key to decrypt it with")
        from cryptography.fernet import InvalidToken

        try:
            return self._all.decrypt(sealed[SEALED]).decode()
        except InvalidToken:
            raise SecretUnreadable("it was encrypted with another key") from None

    def is_present(self, sealed: dict[str, str]) -> bool:
        """Return True if the current key decrypts the secret. Otherwise the secret has to be encrypted again."""
        if self._present is None:
            return False
        from cryptography.fernet import InvalidToken

        try:
            self._present.decrypt(sealed[SEALED])
        except InvalidToken:
            return False
        return True


def is_sealed(value: object) -> bool:
    """Return True if a value of a document is an encrypted secret."""
    return isinstance(value, dict) and set(value) == {SEALED}
