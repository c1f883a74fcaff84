"""Configuration in the console: a reload with a fault shows the line, a candidate shows its plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from configuration import Settings
from console import ConsoleService, Pages
from console_traffic import Shop, shop


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with shop(tmp_path_factory.mktemp("shop")) as found:
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


def _with_an_unreachable_route(settings: Settings) -> None:
    settings["routes"].append({"name": "never", "to": {"broker": "log", "topic": "never"}})


@pytest.mark.nightly
def test_the_warnings_of_the_start_are_shown_until_a_file_without_them_is_applied(
    tmp_path: Path, pages: Pages
) -> None:
    with ConsoleService(tmp_path, _with_an_unreachable_route).running() as service:
        page = pages.open(service, "#/configuration")
        expect(page.get_by_role("heading", name="Warnings", exact=True)).to_be_visible()
        warning = page.get_by_role("listitem").filter(has_text="never matches")
        expect(warning).to_be_visible()
        found = service.ask("GET", "/v1/config")[1]["taken"]["warnings"]
        assert any("'never' never matches" in each for each in found)
        service.change(lambda settings: settings["routes"].pop())
        page.get_by_role("button", name="Reload the file").click()
        expect(warning).to_have_count(0)
