"""The key that credentials given through the API are kept under."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from app.model.route import Strict
from app.model.secret import FileSecret, Secret
from app.store.encryption import is_key


def _fits(secret: FileSecret) -> FileSecret:
    """The message never repeats it."""
    if not is_key(secret.get_secret_value()):
        raise ValueError("is no key of the store: skybridge secret --kind store makes one")
    return secret


StoreKey = Annotated[Secret, AfterValidator(_fits)]


class Encryption(Strict):
    """Encryption of the credentials of subscriptions that the API creates."""

    key: StoreKey = Field(
        description='key made by skybridge secret --kind store; best "${file:/path}". If it is '
        "lost, the stored credentials are lost"
    )
    previous: StoreKey | None = Field(
        None,
        description="the previous key: the next start decrypts with it and encrypts with the "
        "new key",
    )
