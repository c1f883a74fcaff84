"""Read the secrets of one namespace: only Secrets with the label, and none of another namespace."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from app.kubernetes.names import SECRET_LABEL, SECRET_USE
from app.kubernetes.outcome import NotAccepted

_CURE = f"kubectl label secret {{}} {SECRET_LABEL}={SECRET_USE}"


class SecretTexts:
    """The labelled Secrets of a namespace. No message has a text of them."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        """Take the labelled Secrets of the namespace, by name, as the API server returns them."""
        self._known = known

    def __call__(self, name: str, key: str) -> str:
        """Return the text of a key. Raise NotAccepted if the Secret is missing, has no label, or lacks the key."""
        found = self._known.get(name)
        if found is None:
            raise NotAccepted(
                "SecretMissing",
                f"The Secret {name} does not exist in this namespace, or lacks the label. Cure: {_CURE.format(name)}",
            )
        if found["metadata"].get("labels", {}).get(SECRET_LABEL) != SECRET_USE:
            raise NotAccepted(
                "SecretNotLabelled",
                f"The Secret {name} has no label that allows its use. Cure: {_CURE.format(name)}",
            )
        if key not in (found.get("data") or {}):
            raise NotAccepted("SecretMissing", f"The Secret {name} has no key {key}.")
        return _decoded(name, key, found["data"][key])


def _decoded(name: str, key: str, text: str) -> str:
    try:
        return base64.b64decode(text).decode().removesuffix("\n")
    except (binascii.Error, UnicodeDecodeError):
        raise NotAccepted(
            "SecretMissing", f"The key {key} of the Secret {name} is no text."
        ) from None
