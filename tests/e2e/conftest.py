"""The listener's tests run on both loops it may meet: on uvloop, as in production, and at night on asyncio's own."""

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


@pytest.hookimpl(tryfirst=True)  # before ``-m`` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the tests of the listener on asyncio's own loop to the night."""
    for item in items:
        if item.path.parent == Path(__file__).parent and "asyncio" in _variant(item):
            item.add_marker(pytest.mark.nightly)


def _variant(item: pytest.Item) -> list[str]:
    """Return the names of the parameters of a test. That of the loop is there if several loops are."""
    called = getattr(item, "callspec", None)
    return [] if called is None else called.id.split("-")
