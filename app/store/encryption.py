"""Secrets at rest: what the store keeps of a credential can be read with the key alone.

Fernet (AES-128-CBC with HMAC-SHA256) of ``cryptography``; two keys while the key changes. The key is
not in the store: a copy of the database alone gives no credentials.
"""

# ruff: noqa: PLC0415 - cryptography takes 7 MB, and few stores are encrypted

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.errors import SkybridgeError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet

SEALED = "$fernet"
"""The only member of the object that stands in a document in the place of a secret. No attribute, and no
setting, is called so."""


class Unreadable(SkybridgeError):
    """Sealed under a key that we do not have, or changed since."""


def new_key() -> str:
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def is_key(text: str) -> bool:
    from cryptography.fernet import Fernet

    try:
        Fernet(text)
    except ValueError:
        return False
    return True


class Vault:
    """``keys``: the present one first, then the one before. Without any it seals nothing."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._present: Fernet | None = None
        self._all: MultiFernet | None = None
        if keys:
            from cryptography.fernet import Fernet, MultiFernet

            fernets = [Fernet(key) for key in keys]
            self._present, self._all = fernets[0], MultiFernet(fernets)

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
        from cryptography.fernet import InvalidToken

        try:
            return self._all.decrypt(sealed[SEALED]).decode()
        except InvalidToken:
            raise Unreadable("it was sealed under another key") from None

    def is_present(self, sealed: dict[str, str]) -> bool:
        """Whether the present key reads it: one under the key before is to be sealed again."""
        if self._present is None:
            return False
        from cryptography.fernet import InvalidToken

        try:
            self._present.decrypt(sealed[SEALED])
        except InvalidToken:
            return False
        return True


def is_sealed(value: object) -> bool:
    return isinstance(value, dict) and set(value) == {SEALED}
