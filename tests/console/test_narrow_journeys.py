"""The console on a telephone, and with identifiers longer than their column."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from configuration import Settings
from console import Pages
from console_stage import PAGES, Stage, on_stage

PHONE = {"width": 400, "height": 800}
LONG = "the-subscription-of-the-accounting-department-in-the-north-western-region-0042"
SHOWN = {**PAGES, "pull": "#/subscriptions/reports", "parked-keys": "#/subscriptions/ledger/parked"}


def _with_a_long_name(settings: Settings) -> None:
    (first, *_) = settings["subscriptions"]
    sink = first["sink"].replace("/paid-only", "/v2/teams/accounting/regions/north-western/ok")
    settings["subscriptions"].append(first | {"id": LONG, "sink": sink})


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with on_stage(tmp_path_factory.mktemp("stage"), _with_a_long_name) as found:
        found.pause_one()  # the audit has an entry
        yield found


def show(page: Page, fragment: str) -> None:
    page.evaluate("address => { location.hash = address }", fragment)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)


_OVERFLOW = """() => {
    const main = document.querySelector("main");
    return Math.max(document.documentElement.scrollWidth - innerWidth, main.scrollWidth - main.clientWidth);
}"""


@pytest.mark.nightly
def test_no_page_is_wider_than_a_telephone(stage: Stage, pages: Pages) -> None:
    page = pages.open(stage.service, viewport=PHONE)
    found = {}
    for name, fragment in SHOWN.items():
        show(page, fragment)
        if (pixels := page.evaluate(_OVERFLOW)) > 0:
            found[name] = pixels
    assert found == {}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("fragment", "table", "titles"),
    [
        ("#/subscriptions/ledger/attempts", "Attempts", ["When", "Event", "Outcome", "Status"]),
        ("#/letters/parked", "Parked keys", ["Key", "Subscription", "Events", "Next attempt"]),
        ("#/letters", "Dead letters", ["Chosen", "Number", "Subscription", "Event id"]),
        ("#/subscriptions/billing/dead-letters", "Dead letters", ["Number", "Since", "Event id"]),
        ("#/audit", "Audit", ["When", "Token", "Operation", "Status"]),
        ("#/subscriptions", "Subscriptions", ["Name", "State", "Lag", "Parked"]),
    ],
)
def test_a_table_on_a_telephone_has_the_columns_that_tell_rows_apart(
    stage: Stage, pages: Pages, fragment: str, table: str, titles: list[str]
) -> None:
    page = pages.open(stage.service, fragment, viewport=PHONE)
    found = page.get_by_role("table", name=table)
    expect(found.get_by_role("row").nth(1)).to_be_visible()
    assert found.get_by_role("columnheader").all_inner_texts() == titles
    for each in found.get_by_role("row").nth(1).get_by_role("cell").all():
        assert width(each) >= 40
    assert width(found) <= PHONE["width"]


@pytest.mark.nightly
@pytest.mark.parametrize("pixels", [400, 1280])
def test_no_text_of_a_table_is_lost(stage: Stage, pages: Pages, pixels: int) -> None:
    """Titles were cut to "Detai", and identifiers in their end. A cell may be cut if it has a title."""
    page = pages.open(stage.service, viewport={"width": pixels, "height": 800})
    lost = {}
    for name, fragment in SHOWN.items():
        show(page, fragment)
        if texts := page.evaluate(_LOST):
            lost[name] = texts
    assert lost == {}


_LOST = """() => {
    const isCut = each => each.scrollWidth > each.clientWidth + 1;
    const cells = [...document.querySelectorAll("main td")].filter(isCut);
    const titles = [...document.querySelectorAll("main th")].filter(isCut);
    const ends = [...document.querySelectorAll("main .cut-parts")].filter(each => {
        const range = document.createRange();
        range.selectNodeContents(each.lastChild);
        return range.getBoundingClientRect().right > each.getBoundingClientRect().right + 1;
    });
    const silent = cells.filter(each => !each.querySelector("[title]"));
    return [...titles, ...silent, ...ends].map(each => each.textContent);
}"""
"""Headings that are cut, cells that are cut and do not tell all of it on hover, identifiers without their end."""


def width(element: Locator) -> float:
    box = element.bounding_box()
    assert box is not None
    return box["width"]


def test_a_long_name_is_cut_in_the_middle_and_whole_on_hover_and_copy(
    stage: Stage, pages: Pages
) -> None:
    page = pages.open(stage.service, "#/subscriptions", viewport={"width": 1280, "height": 800})
    link = page.get_by_role("link", name=LONG)
    cut = link.locator(".cut")
    expect(cut).to_have_attribute("title", LONG)
    assert cut.evaluate(_SELECTED) == LONG
    assert tail_is_visible(cut)


_SELECTED = "each => (getSelection().selectAllChildren(each), getSelection().toString())"
"""What a person copies."""


def tail_is_visible(cut: Locator) -> bool:
    """Return True if the last text of the element ends inside it, and its first part is cut."""
    found: bool = cut.evaluate(
        """cut => {
            const each = cut.querySelector(".cut-parts");
            const range = document.createRange();
            range.selectNodeContents(each.lastChild);
            const [head] = each.children;
            return range.getBoundingClientRect().right <= each.getBoundingClientRect().right + 1
                && head.scrollWidth > head.clientWidth;
        }"""
    )
    return found


@pytest.mark.nightly
def test_a_target_keeps_its_port_and_its_last_segment(stage: Stage, pages: Pages) -> None:
    page = pages.open(stage.service, "#/subscriptions", viewport={"width": 1000, "height": 800})
    cut = page.locator(".cut[title*='/v2/teams/accounting']")
    expect(cut).to_have_attribute("title", re.compile("^http://"))
    assert tail_is_visible(cut)
    port, last = cut.evaluate(_TEXTS)
    assert re.fullmatch(r":\d+", port)
    assert last == "/ok"


_TEXTS = "each => [...each.lastChild.childNodes].filter(node => node.nodeType === 3).map(node => node.data)"


@pytest.mark.nightly
@pytest.mark.parametrize("fragment", ["#/audit", "#/events?broker=log&topic=orders"])
def test_wide_tables_use_the_width_of_the_window(stage: Stage, pages: Pages, fragment: str) -> None:
    page = pages.open(stage.service, fragment, viewport={"width": 1900, "height": 800})
    expect(page.get_by_role("table").get_by_role("row").nth(1)).to_be_visible()
    assert width(page.get_by_role("table")) > 1500
