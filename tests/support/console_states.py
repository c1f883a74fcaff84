"""Photograph each page of the console in each state, to be looked at: wide and narrow, light and dark,
and as long as it is.

    python tests/support/console_states.py FOLDER [STATE …]

The states are empty, healthy, failing, paused, disabled, broker-away and reader. A file is called
``STATE-PAGE-WIDTH-SCHEME.png``.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, ViewportSize, expect

from configuration import Settings
from console import READER, WITHIN_MS, ConsoleService, browsing, log_in, with_tokens
from console_pictures import SCHEMES
from console_stage import PAGES, Stage, on_stage
from kafka_away import kafka_with
from waiting import wait_until

WIDTHS = (1280, 400)  # pixels
HEIGHT = 800  # pixels of the window; a longer page gets a longer one
LONGEST = 4000  # pixels
WARM = 15.0  # seconds of traffic before the first picture
CALM = 0.4  # seconds for a page to settle
WITHIN = WITHIN_MS / 1000
MORE: Mapping[str, str] = {
    "pull": "#/subscriptions/reports",
    "subscription-parked": "#/subscriptions/ledger/parked",
    "subscription-letters": "#/subscriptions/billing/dead-letters",
    "subscription-ledger": "#/subscriptions/ledger",
    "subscription-search-index": "#/subscriptions/search-index",
    "subscription-accounting": "#/subscriptions/accounting",
    "event-of-ledger": "#/events/event?id=warehouse-000010",
    "letters-of-one": "#/letters?subscription=billing&cause=status-422",
}
"""Pages that have no picture in the docs."""


class Scene(NamedTuple):
    """A service in one state, and the token of the person who looks."""

    service: ConsoleService
    token: str = ""


def _heal(settings: Settings) -> None:
    for each in settings["subscriptions"]:
        if isinstance(each["sink"], str):
            each["sink"] = each["sink"].replace("/down", "/ok").replace("/paid-only", "/ok")


def _disable(settings: Settings) -> None:
    for each in settings["subscriptions"]:
        if isinstance(each["sink"], str):
            each["sink"] = each["sink"].replace("/down", "/gone")


def _send_to_kafka(settings: Settings, servers: str) -> None:
    """Add a Kafka broker, with a route to it and a subscription from it."""
    settings["brokers"]["main"] = {"kind": "kafka", "bootstrap_servers": servers}
    target = {"broker": "main", "topic": "invoices"}
    settings["routes"].append(
        {"name": "invoices", "filters": [{"exact": {"source": "/a"}}], "to": target}
    )
    source = {"broker": "main", "topics": ["invoices"]}
    first = settings["subscriptions"][1]
    settings["subscriptions"].append(first | {"id": "accounting", "source": source})


@contextmanager
def _broker_away(folder: Path) -> Iterator[Scene]:
    """Run a service whose Kafka is killed after the start."""
    with (
        kafka_with(["invoices"]) as kafka,
        on_stage(folder, lambda found: _send_to_kafka(found, kafka.bootstrap_servers)) as stage,
    ):
        kafka.kill()
        time.sleep(WARM)
        yield Scene(stage.service)


@contextmanager
def _empty(folder: Path) -> Iterator[Scene]:
    with ConsoleService(folder).running() as service:
        yield Scene(service)


def _staged(
    change: Callable[[Settings], object] = lambda _: None,
    then: Callable[[Stage], object] = lambda _: None,
    token: str = "",
) -> Callable[[Path], contextlib.AbstractContextManager[Scene]]:
    @contextmanager
    def scene(folder: Path) -> Iterator[Scene]:
        with on_stage(folder, change) as stage:
            then(stage)
            time.sleep(WARM)
            yield Scene(stage.service, token)

    return scene


def _until_disabled(stage: Stage) -> None:
    def state() -> bool:
        found = stage.service.ask("GET", "/v1/subscriptions/ledger/status")[1]
        disabled: bool = found["health"]["state"] == "disabled"
        return disabled

    wait_until(state, "a disabled subscription", WITHIN)


SCENES: Mapping[str, Callable[[Path], contextlib.AbstractContextManager[Scene]]] = {
    "empty": _empty,
    "healthy": _staged(_heal),
    "failing": _staged(),
    "paused": _staged(then=Stage.pause_one),
    "disabled": _staged(_disable, _until_disabled),
    "broker-away": _broker_away,
    "reader": _staged(with_tokens, token=READER),
}


def main(to: Path, names: Collection[str]) -> None:
    expect.set_options(timeout=WITHIN_MS)
    to.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp())
    try:
        for name, scene in SCENES.items():
            if names and name not in names:
                continue
            (folder / name).mkdir()
            with scene(folder / name) as found, browsing(folder) as browser:
                photograph(browser, found, to, name)
    finally:
        shutil.rmtree(folder)


def photograph(browser: Browser, scene: Scene, to: Path, name: str) -> None:
    for scheme in SCHEMES:
        for width in WIDTHS:
            context = browser.new_context(
                color_scheme=scheme, viewport=_size(width), locale="en-GB"
            )
            context.set_default_timeout(WITHIN_MS)
            if scene.token:
                log_in(context, scene.service, scene.token)
            page = context.new_page()
            page.goto(scene.service.url())
            for each, fragment in {**PAGES, **MORE}.items():
                _open(page, fragment, width)
                page.screenshot(path=to / f"{name}-{each}-{width}-{scheme}.png")
            context.close()


def _size(width: int, height: int = HEIGHT) -> ViewportSize:
    return {"width": width, "height": height}


def _open(page: Page, fragment: str, width: int) -> None:
    """Open a page of the console in a window that is as high as the page."""
    page.set_viewport_size(_size(width))
    page.evaluate("address => { location.hash = address }", fragment)
    expect(page.locator("main")).not_to_be_empty()
    expect(page.locator(".loading")).to_have_count(0)
    time.sleep(CALM)
    height = min(LONGEST, page.evaluate(_WHOLE))
    if height > HEIGHT:
        page.set_viewport_size(_size(width, height))
        time.sleep(CALM)


_WHOLE = """() => {
    const main = document.querySelector("main");
    return innerHeight - main.clientHeight + main.scrollHeight;
}"""
"""The height of a window that shows the whole page."""


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
