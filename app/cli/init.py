"""``skybridge init``: a commented configuration to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli import exits, printing

EXAMPLES = (
    "skybridge init",
    "skybridge init shop.yaml",
)


def run(
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("skybridge.yaml"),
) -> None:
    """Write a commented configuration file. An existing file is never overwritten."""
    from app.config.template import TEMPLATE

    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(TEMPLATE)
    except FileExistsError:
        printing.fail(f"{file} is there already.", cure="Name another file.", code=exits.SETUP)
    except OSError as failure:
        printing.fail(f"{file} cannot be written: {failure.strerror}.", code=exits.SETUP)
    console = printing.err()
    console.print(f"wrote [bold]{file}[/]")
    console.print(f"next: skybridge check {file} && skybridge serve --config {file}")
