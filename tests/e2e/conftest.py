"""The listener's tests run on both loops it may meet: asyncio's own and uvloop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvloop

from app.config.load.loader import load
from app.runtime.build import build
from app.runtime.clock import SystemClock
from app.runtime.service import Service
from delivery_fixtures import ledger, target

__all__ = ["ledger", "pytest_asyncio_loop_factories", "target"]


@pytest.fixture
async def started(tmp_path: Path) -> AsyncIterator[Callable[[dict[str, Any]], Awaitable[Service]]]:
    """Starts a service in this process, on an embedded log, on free ports; the settings given come to
    those that all have. All are stopped at the end.
    """
    services = []

    async def start(settings: dict[str, Any]) -> Service:
        whole = {
            "version": 1,
            "server": {"events": {"port": 0}, "admin": {"port": 0}},
            "store": {"kind": "sqlite", "path": str(tmp_path / "store.db")},
            "brokers": {"log": {"kind": "embedded", "path": str(tmp_path / "log")}},
            "timeouts": {"not_ready": "0s"},
        }
        file = tmp_path / "skybridge.json"
        file.write_text(json.dumps(whole | settings))
        service = Service(build(load(file, {}).config, SystemClock()))
        await service.start()
        services.append(service)
        return service

    yield start
    for service in services:
        await service.stop()


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    own = {"asyncio": asyncio.new_event_loop}
    both = {**own, "uvloop": uvloop.new_event_loop}
    return both if item.path.name.startswith("test_listener") else own
