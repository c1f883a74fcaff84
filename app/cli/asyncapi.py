"""``skybridge asyncapi``: the topics of a configuration, described."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli import printing

EXAMPLES = (
    "skybridge asyncapi --config skybridge.yaml --out asyncapi.json",
    "skybridge asyncapi --config skybridge.yaml | jq '.channels | keys'",
)


def run(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="The configuration; without it, that of a bare serve."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write to this file instead.")
    ] = None,
) -> None:
    """Print an AsyncAPI 3 document of the topics of a configuration: brokers as servers, topics as channels,
    routes and subscriptions as operations, events in each content mode as messages.

    Subscriptions made by the API are not in it, nor is any credential. The HTTP interface is described by
    skybridge openapi.
    """
    import os

    from app.config.asyncapi import document
    from app.config.load import load

    printing.document(document(load(config, os.environ).config), out)
