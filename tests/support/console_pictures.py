"""Take the pictures of the console in docs/pictures: every page in light and dark, with the
traffic of ``console_stage``.

    python -m console_pictures                   all of them
    python -m console_pictures flow overview      these
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from console import WITHIN_MS, browsing
from console_stage import MANY, PAGES, Stage, on_stage
from kafka_install import CHECKOUT

PICTURES = CHECKOUT / "docs" / "pictures"
SCHEMES = ("light", "dark")
SIZE = {"width": 1160, "height": 680}
LEFT_OUT = {
    "subscription-attempts": "its table is on the page of the subscription",
    "events-live": "it looks as the search does",
    "parked": "it looks as the list of dead letters does",
    "candidate": "it is empty until a user writes",
}
LARGEST = 160 << 10  # bytes of a picture
WARM = 90.0  # seconds of traffic before the first picture, so that charts have data
SEEN = 20.0  # seconds that the page is open before its pictures, so that it knows the rates of subscriptions
CALM = 3.0  # seconds until a page has its second answer, and so its first rate


def pictured_pages() -> Mapping[str, str]:
    """Return the address of each console page of which a picture is taken, by the name of the
    picture."""
    return {name: PAGES[name] for name in PAGES if name not in LEFT_OUT}


def file_of(name: str, scheme: str) -> str:
    return f"console-{name}-{scheme}.png"


def main(names: Collection[str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    wanted = {
        name: fragment for name, fragment in pictured_pages().items() if name in names or not names
    }
    folder = Path(tempfile.gettempdir()) / "shop"  # pages show it
    folder.mkdir()
    try:
        make(folder, PICTURES, wanted, warm=WARM, seen=SEEN)
    finally:
        shutil.rmtree(folder)


def make(
    folder: Path, pictures: Path, wanted: Mapping[str, str], *, warm: float, seen: float
) -> None:
    expect.set_options(timeout=WITHIN_MS)
    with on_stage(folder, events=MANY) as stage, browsing(folder) as browser:
        stage.pause_one()
        time.sleep(warm)
        for scheme in SCHEMES:
            shoot(browser, stage, pictures, wanted, scheme, seen)


def shoot(
    browser: Browser,
    stage: Stage,
    pictures: Path,
    wanted: Mapping[str, str],
    scheme: str,
    seen: float,
) -> None:
    """Take the pictures of one color scheme in a single page, so that its charts show the traffic
    so far.
    """
    context = browser.new_context(color_scheme=scheme, viewport=SIZE, locale="en-GB")
    page = context.new_page()
    page.set_default_timeout(WITHIN_MS)
    page.goto(stage.service.url())
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    time.sleep(seen)
    for name, fragment in wanted.items():
        show(page, fragment)
        file = pictures / file_of(name, scheme)
        page.screenshot(path=file)
        assert file.stat().st_size <= LARGEST, f"{file} has {file.stat().st_size} bytes"
    context.close()


def show(page: Page, fragment: str) -> None:
    page.evaluate("address => { location.hash = address }", fragment)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)
    time.sleep(CALM)


if __name__ == "__main__":
    main(sys.argv[1:])
