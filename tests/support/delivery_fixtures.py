"""Fixtures of a webhook target with a ledger of its requests, for test folders that import them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from delivery_installation import Ledger
from webhook_target import WebhookTarget


@pytest.fixture
async def target() -> AsyncIterator[WebhookTarget]:
    target = WebhookTarget()
    await target.start()
    yield target
    await target.stop()


@pytest.fixture
def ledger(target: WebhookTarget) -> Ledger:
    target.answer = ledger = Ledger()
    return ledger
