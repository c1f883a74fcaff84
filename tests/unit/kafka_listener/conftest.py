"""A client of the listener that each test file starts its own way."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kafka_asking import Asking
from kafka_listening import Listening


@pytest.fixture
async def asking(listening: Listening) -> AsyncIterator[Asking]:
    asking = Asking(await listening.connect())
    yield asking
    await asking.close()
