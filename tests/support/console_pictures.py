"""The pictures of the console in docs/pictures: every page in light and dark, on the stage of the tests.

python -m console_pictures                   all of them
python -m console_pictures way overview      these
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from console import WITHIN_MS, browsing
from console_stage import CALM, PAGES, Stage, on_stage
from kafka_install import CHECKOUT

PICTURES = CHECKOUT / "docs" / "pictures"
SIZE = {"width": 1160, "height": 680}
LEFT_OUT = {
    "subscription-settings": "it shows where the file of this machine is",
    "configuration": "the same",
    "subscription-attempts": "its table is on the page of the subscription",
    "audit": "a full table makes a large picture",
}
LARGEST = 120 << 10  # bytes of a picture
WARM = 90.0  # seconds of traffic before the first: a chart needs a past


def main(names: Collection[str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    wanted = {name: PAGES[name] for name in names or PAGES if name not in LEFT_OUT}
    with tempfile.TemporaryDirectory() as folder, on_stage(Path(folder)) as stage:
        stage.trouble()
        time.sleep(WARM)
        with browsing(Path(folder)) as browser:
            for scheme in ("light", "dark"):
                shoot(browser, stage, wanted, scheme)


def shoot(browser: Browser, stage: Stage, wanted: Mapping[str, str], scheme: str) -> None:
    """In one page, which keeps what it has seen: its charts grow."""
    context = browser.new_context(color_scheme=scheme, viewport=SIZE, locale="en-GB")
    page = context.new_page()
    page.set_default_timeout(WITHIN_MS)
    page.goto(stage.service.url())
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    time.sleep(20.0)  # rates of subscriptions are those that the page has seen
    for name, fragment in wanted.items():
        show(page, fragment)
        file = PICTURES / f"console-{name}-{scheme}.png"
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
