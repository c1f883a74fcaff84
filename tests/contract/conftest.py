"""A log of whatever harness the module makes, and a topic of it. Some cases run at night."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from app.brokers.portable import PortableLog
from contract_tools import Harness


@pytest.fixture
async def log(harness: Harness) -> AsyncIterator[PortableLog]:
    """Started, and stopped at the end."""
    log = await harness.make_log()
    yield log
    await log.stop()


@pytest.fixture
async def topic(log: PortableLog) -> str:
    """With one partition."""
    name = f"t-{uuid4().hex[:12]}"
    await log.create_topic(name, 1)
    return name


@pytest.hookimpl(tryfirst=True)  # before ``-m`` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the night the cases of the classes that a broker names in ``at_night``."""
    for item in items:
        cases = getattr(getattr(item, "cls", None), "at_night", ())
        if any(item.originalname in vars(part) for part in cases):
            item.add_marker(pytest.mark.nightly)
