"""Write the pages of docs/reference, for ``make docs``. Each of them is generated as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import alerts_page
import api_pages
import cli_pages
import configuration_pages
import metrics_page
import operator_events_page
import problems_page
from app.config.model.schema import schema

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDER = CHECKOUT / "docs" / "reference"


def pages() -> Mapping[str, str]:
    """Return the pages by their path below docs/reference."""
    document = json.loads((CHECKOUT / "openapi" / "openapi.json").read_text())
    folders = {
        "configuration": configuration_pages.pages(schema()),
        "cli": cli_pages.pages(),
        "api": api_pages.pages(document),
    }
    return {
        "metrics.md": metrics_page.page(),
        "alerts.md": alerts_page.page(),
        "problems.md": problems_page.page(),
        "operator-events.md": operator_events_page.page(),
        **{f"{name}/{page}": text for name, made in folders.items() for page, text in made.items()},
    }


def write() -> None:
    """Write all pages, and delete those of things that do not exist any more."""
    made = pages()
    for path, text in made.items():
        file = FOLDER / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for file in FOLDER.rglob("*.md"):
        if file.relative_to(FOLDER).as_posix() not in made:
            file.unlink()


if __name__ == "__main__":
    write()
