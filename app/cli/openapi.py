"""``skybridge openapi``: the description of both listeners."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli import printing

EXAMPLES = ("skybridge openapi --out openapi/openapi.json",)


def run(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write to this file instead.")
    ] = None,
) -> None:
    """Print the OpenAPI 3.1 description of the events listener and the admin listener."""
    printing.document(described(), out)


def described() -> dict[str, object]:
    """The document that a running service serves too."""
    from app.api.app import document, skeleton

    return document(skeleton())
