"""Settings that several kinds of broker or all listeners share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from app.model.duration import Count, Size
from app.model.route import Strict


class InFlight(Strict):
    """Limits of the records that were sent to one broker and have no answer yet."""

    records: Annotated[Count, Field(ge=1)] | None = Field(
        None, description="most records in flight; without it limits.in_flight_records"
    )
    bytes: Annotated[Size, Field(ge=1)] | None = Field(
        None, description="most bytes in flight; without it limits.in_flight_bytes"
    )


class Topics(Strict):
    """Creation of missing topics."""

    create: bool = Field(False, description="create missing topics")
    partitions: Annotated[Count, Field(ge=1, le=1024)] = Field(
        8, description="partitions of topics that Skybridge creates"
    )


_MOST_PORT = 65535


def _joined(value: object) -> object:
    if isinstance(value, list) and all(isinstance(server, str) for server in value):
        return ",".join(value)
    return value


def with_ports(servers: str) -> str:
    """Return servers joined by commas, perhaps as a URL. Raise ValueError for a port that no server can have."""
    for server in servers.rstrip("/").split(","):
        port = server.rpartition(":")[2].strip()
        if port.isdecimal() and not 1 <= int(port) <= _MOST_PORT:
            raise ValueError(
                f"The port {port} does not exist. Cure: Write a port from 1 to {_MOST_PORT}."
            )
    return servers


Servers = Annotated[
    str,
    BeforeValidator(_joined, json_schema_input_type=str | list[str]),
    Field(pattern=r"^\s*[^,\s/@]+:\d{1,5}(\s*,\s*[^,\s/@]+:\d{1,5})*\s*$"),
    AfterValidator(with_ports),
]
"""``host:port``, several separated by commas or as a list."""

MaxRecord = Annotated[Size, Field(ge=1 << 10)]
"""The maximum size of one record in bytes: key, headers and body together."""


Port = Annotated[Count, Field(ge=0, le=65535)]


class ServerTls(Strict):
    """TLS of a listener. The files are read again when they change."""

    cert: Path = Field(description="PEM file of the certificate chain")
    key: Path = Field(description="PEM file of the key, without a pass phrase")
    client_ca: Path | None = Field(
        None,
        description="PEM file of the authorities of client certificates; clients without such a "
        "certificate are refused, but for the events listener with access: producers",
    )
