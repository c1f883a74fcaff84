"""The listener's tests run on both loops it may meet: asyncio's own and uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

from delivery_fixtures import ledger, target

__all__ = ["ledger", "pytest_asyncio_loop_factories", "target"]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    own = {"asyncio": asyncio.new_event_loop}
    both = {**own, "uvloop": uvloop.new_event_loop}
    return both if item.path.name.startswith("test_listener") else own
