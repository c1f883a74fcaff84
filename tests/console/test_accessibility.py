"""Every page and every dialog is for everybody: axe-core finds no serious fault, in light and dark, and a keyboard
reaches every control."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from console import Pages
from console_axe import serious_faults
from console_stage import PAGES, Stage, on_stage

SOME = ("overview", "subscription", "subscription-new")
FILLED = {"dead-letter": "Answer: body", "explain": "Routes, in order", "event": "Its way"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with on_stage(tmp_path_factory.mktemp("stage")) as found:
        found.pause_one()
        yield found


def show(page: Page, name: str) -> None:
    """All that it has: what can be opened is open."""
    page.evaluate("address => { location.hash = address }", PAGES[name])
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)
    if name in FILLED:
        expect(page.locator("main")).to_contain_text(FILLED[name])
    page.evaluate("document.querySelectorAll('main details').forEach(each => each.open = true)")


@pytest.mark.parametrize(
    ("scheme", "names", "rules"),
    [
        pytest.param("light", SOME, [], id="some"),
        pytest.param("light", tuple(PAGES), [], id="light", marks=pytest.mark.nightly),
        pytest.param(
            "dark", tuple(PAGES), ["color-contrast"], id="dark", marks=pytest.mark.nightly
        ),
    ],
)
def test_no_page_has_a_serious_fault(
    stage: Stage, pages: Pages, scheme: str, names: tuple[str, ...], rules: list[str]
) -> None:
    """Labels, contrast (AA), roles. Dark pages differ in their colours alone. axe-core is slow."""
    page = pages.open(stage.service, color_scheme=scheme)
    found = {}
    for name in names:
        show(page, name)
        if faults := serious_faults(page, *rules):
            found[name] = faults
    assert found == {}


@pytest.mark.nightly
def test_dialogs_have_no_serious_fault(stage: Stage, pages: Pages) -> None:
    page = pages.open(stage.service, "#/letters")
    for button, there in (("Redrive all", "Dry run"), ("Discard all", "deleted for good")):
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("dialog")).to_contain_text(there)
        assert serious_faults(page) == []
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_fault_would_be_found(stage: Stage, pages: Pages) -> None:
    """Or the tests above could not fail."""
    page = pages.open(stage.service, "#/explain")
    expect(page.locator("main")).to_contain_text("Routes, in order")
    page.evaluate("document.querySelector('main').append(document.createElement('select'))")
    (fault,) = serious_faults(page)
    assert fault.startswith("select-name: <select>")


_UNREACHED = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
    .filter((each) => !each.disabled && each.checkVisibility({visibilityProperty: true}) && !window.reached.has(each))
    .filter((each) => each.type !== "radio" || each.checked)
    .map((each) => each.outerHTML.slice(0, 120))"""
"""One radio button of a group takes the focus; the arrows reach the others."""
_NOTE = "() => (window.reached ??= new Set()).add(document.activeElement).size"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ["overview", "flow", "subscription-new", "explain", "configuration"]
)
def test_tab_reaches_every_control(stage: Stage, pages: Pages, name: str) -> None:
    page = pages.open(stage.service)
    show(page, name)
    page.evaluate("document.querySelectorAll('main details').forEach(each => each.open = false)")
    page.evaluate("document.activeElement.blur()")
    reached, again = 0, 0
    while again < 3:  # three steps without anything new: the round is over
        page.keyboard.press("Tab")
        size = page.evaluate(_NOTE)
        again = again + 1 if size == reached else 0
        reached = size
    assert reached > 10
    assert page.evaluate(_UNREACHED) == []


@pytest.mark.nightly
def test_numbers_and_times_are_those_of_the_browser(stage: Stage, pages: Pages) -> None:
    """A German browser has German numbers and times."""
    page = pages.open(stage.service, "#/events?broker=log&topic=orders", locale="de-DE")
    first = page.get_by_role("table", name="Events found").locator("time").first
    expect(first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(first).to_have_attribute("title", re.compile(r"^\d\d\.\d\d\.\d{4}, .* vor "))
    english = pages.open(stage.service, "#/events?broker=log&topic=orders", locale="en-US")
    expect(english.get_by_role("table", name="Events found").locator("time").first).to_have_text(
        re.compile(r"^\d+:\d\d:\d\d\s[AP]M$")
    )
