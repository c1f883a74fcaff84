"""The site of the documentation in a real Chromium: search, schemes, barriers, and what the first paint waits for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from console import WITHIN_MS, PageWatch, browsing, demand_console
from console_axe import serious_faults
from site_build import build
from threaded_http import QuietHandler, ThreadedServer

PAGES_BY_NAME = {
    "Security": "docs/guides/security.html",
    "Outages": "docs/guides/outages.html",
    "Find an event": "docs/guides/find.html",
    "Deduplicate": "docs/guides/deduplicate.html",
    "Order and retries": "docs/guides/delivery.html",
    "Any webhook in": "docs/guides/intakes.html",
    "Any webhook out": "docs/guides/outlets.html",
    "Sizing": "docs/guides/sizing.html",
    "Upgrade": "docs/guides/upgrade.html",
    "Glossary": "docs/glossary.html",
}
KINDS = ["index", "docs/index", "docs/guides/delivery", "docs/guides/console", "docs/compare"]
"""One page of each kind: with code and a diagram, tables, a long text, pictures, tables that are wider than the page."""


class _Files(QuietHandler, SimpleHTTPRequestHandler):
    """Serve the files of a folder."""

    get = SimpleHTTPRequestHandler.do_GET


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = build(tmp_path_factory.mktemp("site"))
    with ThreadedServer(partial(_Files, directory=str(folder))) as server:
        yield f"{server.address}/"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    expect.set_options(timeout=WITHIN_MS)
    with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(params=["light", pytest.param("dark", marks=pytest.mark.nightly)])
def page(request: pytest.FixtureRequest, browser: Browser, site: str) -> Iterator[Page]:
    """A page of the site. At its end, it has raised no error and requested no other host."""
    page = browser.new_page(color_scheme=request.param, base_url=site)
    page.set_default_timeout(WITHIN_MS)
    watch = PageWatch(page, site)
    yield page
    page.close()
    assert watch.faults == []


in_light = pytest.mark.parametrize("page", ["light"], indirect=True)


def search(page: Page) -> Locator:
    page.get_by_role("button", name="Search").click()
    return page.get_by_role("combobox", name="Search")


@pytest.mark.nightly
@in_light
def test_search_finds_the_pages_by_their_names(page: Page, site: str) -> None:
    page.goto("index.html")
    field = search(page)
    for name, path in PAGES_BY_NAME.items():
        field.fill(name)
        found = page.get_by_role("option").first
        expect(found).to_have_attribute("href", re.compile(re.escape(site + path)))
        expect(found).to_contain_text(re.compile(f"^{name}"))


@pytest.mark.nightly
def test_a_page_has_no_serious_barrier(page: Page) -> None:
    """Labels, contrast (AA), roles. Dark pages differ in their colours alone."""
    demand_console()  # brings axe-core
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    found = {}
    for path in KINDS:
        page.goto(f"{path}.html")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        if faults := serious_faults(page, *(["color-contrast"] if dark else [])):
            found[path] = faults
    assert found == {}


@pytest.mark.nightly
@in_light
def test_pictures_follow_the_scheme_that_the_reader_chose(page: Page) -> None:
    page.goto("docs/guides/console.html")
    body, shown = page.locator("body"), "img => img.currentSrc"
    picture = page.locator("picture img").first
    picture.scroll_into_view_if_needed()
    expect(body).to_have_attribute("data-md-color-scheme", "default")
    assert picture.evaluate(shown).endswith("-light.png")
    for button in ("Switch to light mode", "Switch to dark mode"):
        page.get_by_title(button).click()
    expect(body).to_have_attribute("data-md-color-scheme", "slate")
    page.wait_for_function(
        f"({shown})(document.querySelector('picture img')).endsWith('-dark.png')"
    )


@pytest.mark.nightly
@in_light
def test_the_first_paint_waits_for_little(page: Page) -> None:
    """The page and its style sheets; scripts, pictures and the index of the search come later. Without a network,
    bytes are most of the time to the first paint."""
    for path in KINDS:
        page.goto(f"{path}.html", wait_until="load")
        blocking = page.evaluate(_BLOCKING)
        assert {re.sub(r".*\.", "", name) for name, _ in blocking} == {"html", "css"}, path
        assert len(blocking) <= 4, path
        assert sum(size for _, size in blocking) <= 300_000, (path, blocking)


_BLOCKING = """() => [
    ...performance.getEntriesByType("navigation"),
    ...performance.getEntriesByType("resource").filter((each) => each.renderBlockingStatus === "blocking"),
].map((each) => [each.name, each.encodedBodySize])"""
