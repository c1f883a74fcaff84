"""The listener's tests run on both loops it may meet: asyncio's own and uvloop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvloop

from configuration import configuration
from delivery_fixtures import ledger, target
from service import Service, running

__all__ = ["ledger", "pytest_asyncio_loop_factories", "target"]


@pytest.fixture
async def started(tmp_path: Path) -> AsyncIterator[Callable[[dict[str, Any]], Awaitable[Service]]]:
    """Start services in this process on an embedded log; the given settings are merged into the usual ones.

    All are stopped at the end.
    """
    async with contextlib.AsyncExitStack() as closing:

        async def start(settings: dict[str, Any]) -> Service:
            return await closing.enter_async_context(
                running(configuration(tmp_path, **settings), tmp_path)
            )

        yield start


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    own = {"asyncio": asyncio.new_event_loop}
    both = {**own, "uvloop": uvloop.new_event_loop}
    return both if item.path.name.startswith("test_listener") else own
