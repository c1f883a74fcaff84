"""An operator mends a target and presses *Try now*: on the event, on Parked, and on the subscription."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from console import READER, TOKEN, ConsoleService, Pages, with_tokens
from console_traffic import Shop, Target
from waiting import wait_until

BAD = 404  # retried, and no fault of the target as a whole


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    """A shop whose subscription parks a key after two failures, for hours."""
    with Target() as target:
        service = ConsoleService(tmp_path, lambda settings: _hours(settings, target.address))
        if getattr(request, "param", False):
            service.change(with_tokens)
        with service.running():
            yield Shop(service, target)


def _hours(settings: dict[str, Any], target: str) -> None:
    hook = {
        "id": "billing",
        "source": {"broker": "log", "topics": ["events"]},
        "start": "earliest",
        "handshake": "off",
        "sink": f"{target}/billing",
        "retry": {"schedule": ["1ms", "24h"], "hold": 1},
    }
    settings["subscriptions"] = [hook]


def _parked(stage: Shop, token: str = "") -> set[str]:
    _, said = stage.service.ask("GET", "/v1/parked/keys", token=token)
    return {each["event"]["id"] for each in said["keys"]}


def _until_parked(stage: Shop, *ids: str, token: str = "") -> None:
    wait_until(lambda: _parked(stage, token) == {*ids}, f"parked {ids}")


def test_try_now_on_the_event_on_parked_and_on_the_subscription(stage: Shop, pages: Pages) -> None:
    stage.target.status = BAD
    for number in range(3):
        stage.post(f"order-{number}", "com.example.order.created")
    _until_parked(stage, "order-0", "order-1", "order-2")
    page = pages.open(stage.service, "#/events/event?id=order-0&source=/shop")
    expect(page.get_by_role("button", name="Try now")).to_be_visible()
    stage.target.status = 204
    page.get_by_role("button", name="Try now").click()
    _until_parked(stage, "order-1", "order-2")
    page = pages.open(stage.service, "#/letters/parked")
    row = page.get_by_role("row").filter(has_text="order-1")
    row.get_by_role("button", name="Try now").click()
    _until_parked(stage, "order-2")
    page = pages.open(stage.service, "#/subscriptions/billing")
    page.get_by_role("button", name="Test event").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog).to_contain_text("Events wait for their next attempt")
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Try now").click()
    _until_parked(stage)


@pytest.mark.nightly
@pytest.mark.parametrize("stage", [True], indirect=True)
def test_a_reader_is_not_offered_it(stage: Shop, pages: Pages) -> None:
    stage.target.status = BAD
    stage.post("order-0", "com.example.order.created")
    _until_parked(stage, "order-0", token=TOKEN)
    page = pages.open(stage.service, "#/letters/parked", token=READER)
    expect(page.get_by_role("row").filter(has_text="order-0")).to_be_visible()
    expect(page.get_by_role("button", name="Try now")).to_have_count(0)
