"""Addresses of servers that a person types."""

from __future__ import annotations

from typing import NoReturn

from app.cli import exits, printing


def demand(option: str, address: str, example: str) -> None:
    """Ends the verb for what is no http address at all: starting a service would not help."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(address)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        printing.fail(
            f"{option} {address} is no address of a server.",
            cure=f"Write it as {example}",
            code=exits.SETUP,
        )


def nobody(address: str, fault: Exception, cure: str) -> NoReturn:
    """Ends the verb because nothing usable answers there."""
    printing.fail(
        f"nothing usable answers at {address}: {reason(fault)}.", cure=cure, code=exits.UNREACHABLE
    )


def reason(fault: Exception) -> str:
    return str(fault).rstrip(".") or type(fault).__name__
