"""A client of the listener that each test file starts its own way."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kafka_listening import KafkaTestListener
from versioned_client import VersionedClient


@pytest.fixture
async def asking(listening: KafkaTestListener) -> AsyncIterator[VersionedClient]:
    asking = VersionedClient(await listening.connect())
    yield asking
    await asking.close()
