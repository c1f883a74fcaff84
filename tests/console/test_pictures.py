"""The guide shows every page in light and dark, the tests make the pictures, and the page is small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.console.files import WEB, read
from console import SHARED_BROWSER, demand_console
from console_pictures import LARGEST, PICTURES, SCHEMES, file_of, make, pictured_pages
from kafka_install import CHECKOUT

BUNDLE = 150_000  # bytes, gzipped
GUIDE = CHECKOUT / "docs" / "guides" / "console.md"


def test_the_whole_page_is_small() -> None:
    """Every file of it, as it is sent to a browser that takes gzip."""
    demand_console()
    files = read(WEB / "dist")
    assert {Path(name).suffix for name in files} >= {".html", ".js", ".css"}
    assert sum(len(each.zipped.content) for each in files.values()) <= BUNDLE


def test_the_guide_shows_every_page_in_light_and_dark() -> None:
    wanted = {file_of(name, scheme) for name in pictured_pages() for scheme in SCHEMES}
    assert set(re.findall(r"console-[a-z-]+\.png", GUIDE.read_text())) == wanted
    there = {each.name: each.stat().st_size for each in PICTURES.glob("console-*.png")}
    assert set(there) == wanted
    assert max(there.values()) <= LARGEST


@pytest.mark.nightly
def test_pictures_are_made(tmp_path: Path) -> None:
    """As ``python -m console_pictures`` makes them, with less traffic before."""
    demand_console()
    SHARED_BROWSER.close()  # the pictures are made by another one
    pages, pictures = pictured_pages(), tmp_path / "pictures"
    pictures.mkdir()
    make(tmp_path, pictures, pages, warm=10.0, seen=5.0)
    made = {each.name for each in pictures.iterdir()}
    assert made == {file_of(name, scheme) for name in pages for scheme in SCHEMES}
