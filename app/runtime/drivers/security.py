"""What the drivers' settings of TLS and secrets have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import SecretStr

from app.config.brokers import ClientTls

Tls = TypeVar("Tls")


def tls_of(make: Callable[..., Tls], tls: ClientTls | None) -> Tls | None:
    if tls is None:
        return None
    return make(
        ca=None if tls.ca is None else str(tls.ca),
        certificate=None if tls.cert is None else str(tls.cert),
        key=None if tls.key is None else str(tls.key),
        verify_host=tls.verify_host,
    )


def revealed(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()
