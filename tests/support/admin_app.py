"""The admin API over a service that is made up. The only module of the tests that knows how the API is made."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from app.api.access.callers import Access
from app.api.front import create_app


def admin_app(
    service: Any, allowed: Access | None = None, stopped: asyncio.Event | None = None
) -> Any:
    """Return the ASGI application. ``allowed``: who may ask, by default everyone on loopback."""
    return create_app(service, allowed=allowed or Access(), stopped=stopped or asyncio.Event())


def client_of(
    app: Any, base: str = "http://127.0.0.1", headers: dict[str, str] | None = None
) -> httpx.AsyncClient:
    """Return a client that calls the application without a socket."""
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url=base, headers=headers)
