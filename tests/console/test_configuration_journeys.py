"""Configuration in the console: a reload with a fault shows the line, a candidate shows its plan. And every page of
this half of the console is for everybody: axe finds no serious fault, in light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from console import Pages
from console_axe import serious_faults
from console_traffic import Shop, shop


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with shop(tmp_path_factory.mktemp("shop")) as found:
        found.target.status, found.target.said = 422, '{"error": "unknown currency"}'
        for number in range(3):
            found.send(number)
        found.until_dead(6)
        yield found


def test_a_reload_with_a_fault_shows_the_line(stage: Shop, pages: Pages) -> None:
    """And nothing changes; a mended file is taken."""
    service = stage.service
    page = pages.open(service, "#/configuration")
    service.change(lambda settings: settings["routes"][0]["to"].update(broker="nowhere"))
    page.get_by_role("button", name="Reload the file").click()
    wrong = page.get_by_role("listitem").filter(has_text="nowhere").first
    expect(wrong).to_contain_text(f"Line {service.line_of('nowhere')}")
    expect(page.get_by_role("alert")).to_contain_text("422")
    service.change(lambda settings: settings["routes"][0]["to"].update(broker="log"))
    page.get_by_role("button", name="Reload the file").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("unchanged", exact=True)).to_be_visible()


def test_a_candidate_shows_its_faults_by_line_and_its_plan(stage: Shop, pages: Pages) -> None:
    """While it is written; nothing is applied."""
    settings = json.loads(stage.service.file.read_text())
    page = pages.open(stage.service, "#/configuration/candidate")
    text = page.get_by_label("Candidate, in YAML")
    settings["subscriptions"][1]["concurrency"] = 7
    text.fill(json.dumps(settings, indent=1))
    expect(page.get_by_text("A reload applies this without a restart")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="concurrency")).to_contain_text("7")
    settings["subscriptions"][1]["concurrency"] = "many"
    written = json.dumps(settings, indent=1)
    text.fill(written)
    line = next(n for n, each in enumerate(written.split("\n"), 1) if '"many"' in each)
    page.get_by_role("button", name=f"Line {line}").click()
    assert page.evaluate("getSelection().toString()").strip() == '"concurrency": "many"'
    assert json.loads(stage.service.file.read_text())["subscriptions"][1].get("concurrency") is None


PAGES = {
    "#/events": "Events found",
    "#/events?live=1": "Live",
    "#/events/event?id=order-1": "Its way",
    "#/letters": "Over time",
    "#/letters/1": "Answer: body",
    "#/letters/parked": "Nothing is parked",
    "#/explain": "Routes, in order",
    "#/producers": "What each may send",
    "#/audit": "Operation",
    "#/configuration": "Every setting in force",
    "#/configuration/candidate": "No candidate yet",
}


@pytest.mark.parametrize(("scheme", "rules"), [("light", []), ("dark", ["color-contrast"])])
def test_no_page_has_a_serious_fault_for_anybody(
    stage: Shop, pages: Pages, scheme: str, rules: list[str]
) -> None:
    """Labels, contrast, roles: what axe-core calls serious or critical. Dark pages differ in their colours alone."""
    page = pages.open(stage.service, color_scheme=scheme)
    found = {}
    for address, there in PAGES.items():
        page.goto(stage.service.url(address))
        expect(page.locator("main")).to_contain_text(there) if there != "Events found" else expect(
            page.get_by_role("table", name=there)
        ).to_be_visible()
        for detail in page.locator("main details").all():
            detail.evaluate("each => each.open = true")
        if faults := serious_faults(page, *rules):
            found[address] = faults
    assert found == {}


def test_a_fault_would_be_found(stage: Shop, pages: Pages) -> None:
    """Or the two tests beside this one could not fail."""
    page = pages.open(stage.service, "#/explain")
    expect(page.locator("main")).to_contain_text("Routes, in order")
    page.evaluate("document.querySelector('main').append(document.createElement('select'))")
    (fault,) = serious_faults(page)
    assert fault.startswith("select-name: <select>")


def test_dialogs_have_no_serious_fault(stage: Shop, pages: Pages) -> None:
    page = pages.open(stage.service, "#/letters")
    for button, there in (("Redrive all 6", "Dry run"), ("Discard all 6", "deleted for good")):
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("dialog")).to_contain_text(there)
        assert serious_faults(page) == []
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
