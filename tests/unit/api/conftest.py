"""``/v1/topics`` of a service that is made up, with one topic of two partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from app.api.app import create_app
from topics_service import Service


@pytest.fixture
async def service() -> Service:
    service = Service()
    await service.log.create_topic("events", 2)
    return service


@pytest.fixture
async def client(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(service, token=None, stopped=asyncio.Event())  # type: ignore[arg-type]
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client
