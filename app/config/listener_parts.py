"""What the settings of all listeners share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from app.model.duration import Count
from app.model.route import Strict

Port = Annotated[Count, Field(ge=0, le=65535)]


class ServerTls(Strict):
    """TLS of a listener. The files are read again when they change."""

    cert: Path = Field(description="PEM file of the certificate chain")
    key: Path = Field(description="PEM file of the key, without a pass phrase")
    client_ca: Path | None = Field(
        None,
        description="PEM file of the authorities of client certificates; clients without such a "
        "certificate are refused",
    )
