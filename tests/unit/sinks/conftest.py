"""The client's tests run on both loops it may meet: asyncio's own and uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import trustme
import uvloop

from app.sinks.http_client import HttpClient
from delivery_fixtures import target

__all__ = ["pytest_asyncio_loop_factories", "target"]

BOTH = ("test_http_", "test_hostile_answers", "test_proxy")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    own = {"asyncio": asyncio.new_event_loop}
    both = {**own, "uvloop": uvloop.new_event_loop}
    return both if item.path.name.startswith(BOTH) else own


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    """Its certificate is in ca.pem."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return authority


@pytest.fixture
async def clients() -> AsyncIterator[Callable[..., HttpClient]]:
    """They may reach loopback."""
    made: list[HttpClient] = []

    def make(**settings: object) -> HttpClient:
        given = {"allow_private": ("127.0.0.0/8", "::1/128", "*.test"), **settings}
        made.append(HttpClient(**given))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for client in made:
        await client.stop()
