"""Journeys on the page Producers: who sends, and whom nobody knows."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from console import Pages
from console_traffic import Shop, shop


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with shop(tmp_path_factory.mktemp("shop")) as found:
        yield found


def _send_with_key(stage: Shop, key: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", stage.service.events, timeout=60)
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    connection.request("POST", "/events", "{}", headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_rejected_key_of_a_stranger_is_shown(stage: Shop, pages: Pages) -> None:
    """Refusals of a producer with a right key stay on its own row."""
    page = pages.open(stage.service, "#/producers")
    expect(page.get_by_role("table", name="Producers")).to_be_visible()
    expect(page.get_by_text("Refused, from strangers")).to_have_count(0)
    assert stage.post("order-1", "other.kind")[0] == 403
    for key in ("no-such-key-1", "no-such-key-2"):
        assert _send_with_key(stage, key) == 401
    strangers = page.locator(".card", has_text="Refused, from strangers")
    expect(strangers).to_contain_text("not-authenticated 2")
    expect(strangers.locator(".badge")).to_have_count(1)
