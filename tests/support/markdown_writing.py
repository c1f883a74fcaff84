"""Write Markdown: tables, and text that is no Markdown itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`[^`]+`)")
_SPECIAL = re.compile(r"([*<])")
_NO_SLUG = re.compile(r"[^\w\- ]")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Columns that are empty in every row are left out."""
    kept = list(rows)
    used = [number for number in range(len(columns)) if any(row[number] for row in kept)]
    lines = [[columns[number] for number in used]]
    lines += [[_cell(row[number]) for number in used] for row in kept]
    head, *others = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join([head, "|" + "---|" * len(used), *others, ""])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def prose(text: str) -> str:
    """Return the text of a docstring or a description as Markdown: double back-ticks become single, and characters with
    a meaning in Markdown are escaped."""
    parts = _CODE.split(text.replace("``", "`"))
    return "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts)


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and the site make it."""
    return _NO_SLUG.sub("", heading.lower()).replace(" ", "-")
