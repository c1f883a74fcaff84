"""Links between pages, and from pages to files and headings, lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from markdown_writing import slug
from pages import CHECKOUT, PAGES, links

CHANGELOG = CHECKOUT / "CHANGELOG.md"
_TO_HEADING = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ANCHOR = re.compile(r'<a id="([^"]+)">')
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_the_links_of_a_page_lead_to_files_that_exist(page):
    """A reader who follows a link arrives."""
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


@pytest.mark.parametrize(
    "page", [*PAGES, CHANGELOG], ids=lambda page: str(page.relative_to(CHECKOUT))
)
def test_the_links_of_a_page_lead_to_headings_that_exist(page):
    """A heading that gets another name leaves links behind, also in the changelog."""
    found = _TO_HEADING.findall(_CODE.sub("", page.read_text()))
    ours = [
        (page.parent / path if path else page, name) for path, name in found if "://" not in path
    ]
    assert [(to.name, name) for to, name in ours if name not in anchors(to)] == []


def anchors(page: Path) -> set[str]:
    """The headings as GitHub makes anchors of them, and the anchors of HTML."""
    text = _CODE.sub("", page.read_text())
    return {slug(heading) for heading in _HEADING.findall(text)} | {*_ANCHOR.findall(text)}
