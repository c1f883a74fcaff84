"""axe-core finds no serious fault on any page, in light and dark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from app.console.files import WEB
from console import Pages
from console_stage import PAGES, Stage, on_stage
from service_process import until

AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with on_stage(tmp_path_factory.mktemp("stage")) as found:
        found.trouble()
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_fault(stage: Stage, pages: Pages, scheme: str) -> None:
    page = pages.open(stage.service, color_scheme=scheme, bypass_csp=True)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.add_script_tag(path=AXE)
    found = {name: faults(page, fragment) for name, fragment in PAGES.items()}
    assert {name: each for name, each in found.items() if each} == {}


def faults(page: Page, fragment: str) -> list[str]:
    """Those of the page behind the fragment: the rule, and the first elements that break it."""
    page.evaluate("address => { location.hash = address }", fragment)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    until(lambda: page.locator(".loading").count() == 0, 60.0, "a page that has loaded")
    report = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {[node['html'][:160] for node in each['nodes'][:3]]} {each['nodes'][0]['failureSummary']}"
        for each in report["violations"]
        if each["impact"] in SERIOUS
    ]
