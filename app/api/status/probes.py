"""Answers of ``/healthz``, ``/readyz`` and ``/metrics``, made without FastAPI."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from app.api.answers import Readiness, RoleReadiness
from app.api.running import Running

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Answer(NamedTuple):
    status: int
    media_type: str
    body: bytes


ALIVE = Answer(200, "text/plain; charset=utf-8", b"ok\n")


async def probed(running: Running, only: str | None, *, looks: bool) -> Answer:
    """Of readiness. ``looks``: whether the caller may see more than the status."""
    found = await readiness(running, only)
    shown = found if looks else Readiness(ready=found.ready)
    body = shown.model_dump_json(exclude_none=True).encode()
    return Answer(200 if found.ready else 503, "application/json", body)


async def readiness(running: Running, only: str | None = None) -> Readiness:
    """Of all roles, or of one; one that is not run here is not ready here."""
    roles = {
        role: state for role, state in (await running.readiness()).items() if only in {None, role}
    }
    if only is not None and only not in roles:
        cause = f"this process does not run the role {only}: see --role"
        roles[only] = RoleReadiness(ready=False, causes=[cause])
    return Readiness(ready=all(each.ready for each in roles.values()), roles=roles)


async def measure(running: Running) -> Answer:
    """Prometheus text."""
    from app.api.metrics import render  # noqa: PLC0415 - many a process is never scraped
    from app.api.snapshot import snapshot  # noqa: PLC0415

    found = await snapshot(running)
    counts = found.counters.values()  # copied here: the loop goes on counting
    return Answer(200, METRICS_TYPE, await asyncio.to_thread(render, found, counts))
