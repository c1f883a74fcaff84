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
    """Credentials of subscriptions that the API makes lie encrypted in the store."""

    key: StoreKey = Field(
        description='made by skybridge secret --kind store; best "${file:/path}". Lost with it: what the '
        "store holds of credentials"
    )
    previous: StoreKey | None = Field(
        None, description="the one before: what lies under it is encrypted anew at the next start"
    )
