"""What the console costs: its first paint with a cold cache, and the CPU of the service while its overview is open."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lab
import table
from cost import cpu_seconds
from playwright.sync_api import Browser, Page

import console
from app.console.files import WEB, read
from waiting import wait_until

RATE = 2_000  # events a second
PAINT = 1_000.0  # ms
SHARE = 3.0  # % of a core
BUNDLE = 150.0  # kB
WARM = 5.0  # seconds of load before the first window; a page has as long to open

PREFACE = f"""## The console

First paint is `first-contentful-paint` of the Performance API in Chromium, each time in a context with an empty cache. The
share is what the service's process uses more with the overview open than without, at {RATE:,} single events a second into the
embedded log, all delivered to a webhook; windows with and without the page alternate (without, with, with, without) in one
run. The bundle is every file of the page, gzipped as it is sent.
"""

_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def bundle_size() -> int:
    """Bytes of all files, as a browser that takes gzip gets them."""
    return sum(len(each.zipped.content) for each in read(WEB / "dist").values())


def first_paint(browser: Browser, url: str) -> float:
    """Milliseconds since the navigation began."""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(url)
        painted: float = page.wait_for_function(_PAINTED).json_value()
        return painted
    finally:
        context.close()


@contextmanager
def opened(browser: Browser, url: str) -> Iterator[Page]:
    """The overview, with its stream and its polls."""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(url)
        page.get_by_role("img", name="Events a second").wait_for()
        yield page
    finally:
        context.close()


def used(pid: int, seconds: float) -> float:
    """Per cent of a core."""
    before, begun = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_seconds(pid) - before) / (time.monotonic() - begun)


def share_of_page(browser: Browser, service: lab.Service, url: str, seconds: float) -> list[float]:
    """Per cent of a core that the open page takes, of two pairs of windows under one load."""
    whole = 4 * seconds + 6 * WARM
    words = (f"--port={service.port}", f"--rate={RATE}", f"--seconds={whole}", f"--warm={WARM}")
    load = lab.start("open_loop.py", *words)
    try:
        time.sleep(WARM)
        without = [used(service.pid, seconds)]
        with opened(browser, url):
            time.sleep(WARM)  # what a page asks once does not count
            open_ = [used(service.pid, seconds), used(service.pid, seconds)]
        time.sleep(WARM)
        without.append(used(service.pid, seconds))
        lab.result_of(load)
    except BaseException:
        lab.end(load)
        raise
    return [found - bare for found, bare in zip(open_, without, strict=True)]


def measure(folder: Path, rounds: int, seconds: float) -> tuple[list[table.Plain], list[str]]:
    bundle = table.Plain("bundle, gzipped", "", BUNDLE, [bundle_size() / 1000], unit="kB")
    paint = table.Plain("first paint, cold cache", "", PAINT, unit="ms")
    share = table.Plain(f"overview open, {RATE:,} events/s", "", SHARE, unit="% of a core")
    sink = lab.Sink(folder)
    service = lab.Service(folder / "service", {"kind": "embedded", "path": str(folder / "log")})
    source = {"broker": "target", "topics": [lab.TOPIC]}
    hook = {
        "id": "hook",
        "source": source,
        "sink": f"http://127.0.0.1:{sink.port}/",
        "handshake": "off",
    }
    service.start([hook])
    url = f"http://127.0.0.1:{service.admin}/console/"
    try:
        with console.browsing(folder) as browser:
            wait_until(lambda: service.running() == 1, "a subscription that runs", lab.UP_WITHIN)
            first_paint(browser, url)  # the browser itself has a cold start
            for number in range(rounds):
                print(f"the console, round {number + 1} of {rounds}", file=sys.stderr)
                paint.measured += [first_paint(browser, url) for _ in range(5)]
                share.measured.append(
                    statistics.mean(share_of_page(browser, service, url, seconds))
                )
    finally:
        service.stop()
        sink.stop()
    return [bundle, paint, share], [
        f"{rounds} rounds; each has 4 windows of {seconds:g} s and 5 first paints."
    ]
