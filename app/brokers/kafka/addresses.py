"""Parse the broker addresses of ``bootstrap_servers``. Pure."""

from __future__ import annotations

PORT = 9092


def addresses_of(servers: str) -> list[tuple[str, int]]:
    """Return the host and port of each server in a comma-separated list.

    The default port is 9092. An IPv6 address with a port must be in brackets.
    """
    return [_address(each.strip()) for each in servers.split(",") if each.strip()]


def _address(text: str) -> tuple[str, int]:
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return host, _port(port.removeprefix(":"))
    if text.count(":") > 1:
        return text, PORT
    host, _, port = text.partition(":")
    return host, _port(port)


def _port(text: str) -> int:
    return int(text) if text.isdecimal() else PORT
