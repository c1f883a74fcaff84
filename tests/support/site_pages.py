"""Pages of the site: the README, the folder ``docs`` and the files that they link to, each at its
path in the checkout. The navigation is the list of ``docs/README.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os.path import normpath
from pathlib import Path

from pages import CHECKOUT, links

Navigation = list[dict[str, "str | Navigation"]]
"""Entries in the form of Zensical: a title with a page, or with the entries below it."""

LIST = Path("docs/README.md")

_SECTION = re.compile(r"^## (?P<title>.+)\n(?P<text>(?:(?!## ).*\n)*)", re.MULTILINE)
_ROW = re.compile(r"^\| \[(?P<title>[^\]]+)\]\((?P<page>[^)#]+\.md)\) \|", re.MULTILINE)
_HEADING = re.compile(r"^# (.+)$", re.MULTILINE)


def files(checkout: Path = CHECKOUT) -> list[Path]:
    """Return the paths of all files of the site, relative to the checkout."""
    docs = [each for each in (checkout / "docs").rglob("*") if each.is_file()]
    waiting = [Path("README.md"), *(each.relative_to(checkout) for each in docs)]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _linked(path, checkout)
    return sorted(found)


def _linked(path: Path, checkout: Path) -> Iterator[Path]:
    """Yield the files of the checkout that a page links to."""
    if path.suffix == ".md":
        for target in links(checkout / path):
            linked = Path(normpath(path.parent / target))
            if (checkout / linked).is_file() and ".." not in linked.parts:
                yield linked


def navigation(checkout: Path = CHECKOUT) -> Navigation:
    """Return the sections of ``docs/README.md`` with the pages of their tables.

    The ``README.md`` of a folder below ``docs`` brings the other pages of the folder, unless
    ``docs/README.md`` lists them.
    """
    text = (checkout / LIST).read_text(encoding="utf-8")
    rows = {row: Path(normpath(LIST.parent / row["page"])) for row in _ROW.finditer(text)}
    return [
        {
            section["title"]: [
                {row["title"]: _entry(page, _below(page, checkout) - {*rows.values()}, checkout)}
                for row, page in rows.items()
                if section.start() < row.start() < section.end()
            ]
        }
        for section in _SECTION.finditer(text)
    ]


def _below(page: Path, checkout: Path) -> set[Path]:
    """Return all pages in the folder of an index below ``docs``."""
    if page.name != "README.md" or LIST.parent not in page.parent.parents:
        return set()
    return {each.relative_to(checkout) for each in (checkout / page.parent).glob("*.md")}


def _entry(page: Path, below: set[Path], checkout: Path) -> str | Navigation:
    if not below:
        return str(page)
    entries = [{_title(checkout / each): str(each)} for each in sorted(below)]
    return [{"Overview": str(page)}, *entries]


def _title(page: Path) -> str:
    heading = _HEADING.search(page.read_text(encoding="utf-8"))
    return heading[1].replace("`", "") if heading else page.stem


def listed(entries: Navigation) -> Iterator[str]:
    """Yield the page of each entry of a navigation, from the top."""
    for entry in entries:
        for place in entry.values():
            if isinstance(place, str):
                yield place
            else:
                yield from listed(place)
