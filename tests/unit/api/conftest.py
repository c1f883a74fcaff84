"""The admin API of a service that is made up: by default with one topic of two partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from admin_app import admin_app, client_of
from topics_service import FakeTopicsService


@pytest.fixture
async def service() -> FakeTopicsService:
    service = FakeTopicsService()
    await service.log.create_topic("events", 2)
    return service


@pytest.fixture
def stopped() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
async def client(service: Any, stopped: asyncio.Event) -> AsyncIterator[httpx.AsyncClient]:
    """Of whatever service the module makes."""
    async with client_of(admin_app(service, stopped=stopped)) as client:
        yield client
