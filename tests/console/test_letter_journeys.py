"""What an operator does with dead letters: mend the target and redrive, discard, look through very many."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import expect

from app.store import open_store
from console import READER, TOKEN, ConsoleService, Pages, with_tokens
from console_traffic import Shop, shop
from letters_service import a_letter

MANY = 100_000


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with shop(tmp_path_factory.mktemp("shop")) as found:
        yield found


def test_mend_the_target_and_redrive(stage: Shop, pages: Pages) -> None:
    """The answer says what is wrong; when the target is mended the events of billing arrive, and the others
    are discarded by a typed word."""
    stage.target.status, stage.target.answer_text = 422, '{"error": "unknown currency"}'
    for number in range(3):
        stage.send(number)
    stage.until_dead(6)
    page = pages.open(stage.service, "#/letters")
    page.get_by_role("button", name="billing status-422").click()
    expect(page.get_by_role("heading", name="3 dead letters")).to_be_visible()
    page.get_by_role("table", name="Dead letters").get_by_role("link").first.click()
    expect(page.get_by_label("Request", exact=True)).to_contain_text("POST /billing")
    expect(page.get_by_label("Answer: body", exact=True)).to_contain_text("unknown currency")
    stage.target.status = 204
    page.go_back()
    page.get_by_role("button", name="Redrive all 3").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("3 events would go out again")
    dialog.get_by_label("Events a second").fill("50")
    dialog.get_by_role("button", name="Redrive 3").click()
    expect(dialog.get_by_role("status")).to_contain_text("Done: 3 of 3 left the store")
    expect(dialog.get_by_role("status")).to_contain_text("none dead again")
    assert (stage.dead(subscription="billing"), stage.dead()) == (0, 3)
    dialog.get_by_role("button", name="Close").last.click()
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("button", name="Discard all 3").click()
    discard = dialog.get_by_role("button", name="Discard 3 letters")
    expect(discard).to_be_disabled()
    dialog.get_by_role("textbox").fill("discard")
    discard.click()
    expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()
    assert stage.dead() == 0


@pytest.mark.nightly
def test_chosen_letters_alone_are_redriven(stage: Shop, pages: Pages) -> None:
    stage.target.status, stage.target.answer_text = 400, "no"
    for number in range(10, 12):
        stage.send(number, "paid")
    stage.until_dead(2)
    stage.target.status = 204
    page = pages.open(stage.service, "#/letters")
    page.get_by_role("row").filter(has_text="order-10").get_by_role("checkbox").check()
    page.get_by_role("button", name="Redrive 1 chosen").click()
    page.get_by_role("dialog").get_by_role("button", name="Redrive 1", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("Done: 1 of 1")
    page.get_by_role("dialog").get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("row").filter(has_text="order-11")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="order-10")).to_have_count(0)
    assert stage.service.ask("POST", "/v1/dead-letters:discard", {"dry_run": False})[0] == 200


@pytest.mark.nightly
def test_from_one_chosen_letter_all_of_its_cause_are_redriven(stage: Shop, pages: Pages) -> None:
    """Also those that the page has not loaded. The last letter goes, and the result stays to be read."""
    stage.target.status, stage.target.answer_text = 400, "no"
    for number in range(30, 33):
        stage.send(number, "paid")
    stage.until_dead(3)
    stage.target.status = 204
    page = pages.open(stage.service, "#/letters")
    page.get_by_role("row").filter(has_text="order-30").get_by_role("checkbox").check()
    page.get_by_role("button", name="Choose all 3 of this cause").click()
    page.get_by_role("button", name="Redrive all 3 of this cause").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Redrive 3").click()
    expect(dialog.get_by_role("status")).to_contain_text("Done: 3 of 3")
    for _ in range(2):  # the page has heard that no letter is left
        with page.expect_response(lambda answer: answer.url.endswith("/v1/dead-letters/count")):
            pass
    expect(dialog.get_by_role("status")).to_contain_text("none dead again")
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()


def test_parked_keys_say_what_they_wait_for(stage: Shop, pages: Pages) -> None:
    """A key that waits stands there with its cause, and its oldest event is one click away."""
    assert stage.service.ask("POST", "/v1/subscriptions/billing:pause")[0] == 200
    page = pages.open(stage.service, "#/letters/parked")
    expect(page.get_by_role("heading", name="Nothing is parked")).to_be_visible()
    stage.target.status, stage.target.answer_text = 400, "no"
    stage.send(20)
    stage.until_dead(1)  # of audit
    stage.target.status = 204
    order = {"subscription": "audit", "dry_run": False, "rate": 0.001}
    assert stage.service.ask("POST", "/v1/subscriptions/audit:pause")[0] == 200
    assert stage.service.ask("POST", "/v1/dead-letters:redrive", order)[0] == 200
    expect(page.get_by_role("row").filter(has_text="order-20")).to_contain_text("audit")
    for name in ("audit", "billing"):
        assert stage.service.ask("POST", f"/v1/subscriptions/{name}:resume")[0] == 200


@pytest.mark.nightly
def test_a_hundred_thousand_dead_letters_scroll(pages: Pages, tmp_path: Path) -> None:
    """The first are there at once, older ones as somebody scrolls, and no more rows are drawn than are seen."""
    service = ConsoleService(tmp_path)
    fill(tmp_path / "store.db", MANY)
    with service.running():
        page = pages.open(service, "#/letters")
        table = page.get_by_role("table", name="Dead letters")
        expect(table.get_by_role("link", name=str(MANY), exact=True)).to_be_visible()
        expect(page.get_by_role("heading", name="100,000 dead letters")).to_be_visible()
        page.evaluate(_SCROLL, 1)
        last = table.get_by_role("row").last.get_by_role("link")
        assert int(last.inner_text()) <= 1
        assert table.get_by_role("row").count() < 100


_SCROLL = """async (downTo) => {
    const region = document.querySelector('[role=region][aria-label="Dead letters"]');
    const last = () => Number([...region.querySelectorAll("tr a")].pop()?.textContent);
    for (let seen = last(), since = Date.now(); last() > downTo; ) {
        if (last() !== seen) [seen, since] = [last(), Date.now()];
        if (Date.now() - since > 120000) throw new Error(`only down to ${seen}`);
        region.scrollTop = region.scrollHeight;
        await new Promise(requestAnimationFrame);
    }
}"""
"""Drags the bar down until the row of this id is drawn. Fails if no further row is drawn for two minutes."""


def fill(file: Path, count: int) -> None:
    """One letter by the store itself, the others as its copies. Beside Playwright's loop, in a thread."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _add(file)).result()
    with closing(sqlite3.connect(file)) as database, database:
        names = [each[1] for each in database.execute("PRAGMA table_info(dead_letters)")]
        changed = {"id": "n", "position": "n", "event_id": "'order-' || n", "at_ms": "at_ms + n"}
        values = ", ".join(changed.get(name, f'"{name}"') for name in names)
        database.execute(
            "WITH RECURSIVE numbers(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)"
            f" INSERT INTO dead_letters SELECT {values} FROM dead_letters, numbers WHERE n <= ?",
            (count, count),
        )


async def _add(file: Path) -> None:
    store = open_store(file, timeout=60)
    await store.start()
    await store.letters.add(a_letter(1))
    await store.stop()


@pytest.mark.nightly
def test_who_may_only_read_has_no_button_that_changes(pages: Pages, tmp_path: Path) -> None:
    """What the scopes of a session do not allow is not there, instead of failing when it is pressed."""
    service = ConsoleService(tmp_path, with_tokens)
    fill(tmp_path / "store.db", 1)
    with service.running():
        for token, there in ((TOKEN, True), (READER, False)):
            page = pages.open(service, "#/letters", token=token)
            table = page.get_by_role("table", name="Dead letters")
            expect(table.get_by_role("link", name="1", exact=True)).to_be_visible()
            assert table.get_by_role("checkbox").count() == (1 if there else 0)
            for button in ("Redrive all 1", "Discard all 1"):
                expect(page.get_by_role("button", name=button)).to_have_count(1 if there else 0)
            page.goto(service.url("#/letters/1"))
            expect(page.get_by_role("heading", name="Dead letter 1")).to_be_visible()
            expect(page.get_by_role("button", name="Redrive")).to_have_count(1 if there else 0)
            page.goto(service.url("#/configuration"))
            expect(page.get_by_role("heading", name="Every setting in force")).to_be_visible()
            expect(page.get_by_role("button", name="Reload the file")).to_have_count(int(there))
            expect(page.get_by_role("link", name="Candidate")).to_have_count(1 if there else 0)
