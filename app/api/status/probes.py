"""Answers of ``/healthz``, ``/readyz`` and ``/metrics``, made without FastAPI."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from app.api.asked import readiness as asked
from app.api.asked.readiness import RoleReadiness
from app.api.status.answers import Readiness
from app.api.status.asked import AttentionSource, Measured
from app.api.status.attention import with_attention
from app.errors import SkybridgeError
from app.telemetry import Counters

EXPLAINED_WITHIN = 1.0  # seconds that a probe waits for what needs a person
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ProbeAnswer(NamedTuple):
    """An HTTP answer of a probe."""

    status: int
    media_type: str
    body: bytes


ALIVE = ProbeAnswer(200, "text/plain; charset=utf-8", b"ok\n")


async def answer_readiness(
    roles: asked.ReadinessSource,
    only: str | None,
    needs: AttentionSource | None,
) -> ProbeAnswer:
    """Return the answer of the readiness probe.

    Args:
        roles: The provider of the readiness of each role.
        only: The role that was requested, or None for all.
        needs: The provider of what needs a person, which is added to the causes. None for a caller who may
            not see the causes.
    """
    found = await readiness(roles, only)
    shown = Readiness(ready=found.ready) if needs is None else await _explained(found, needs)
    body = shown.model_dump_json(exclude_none=True).encode()
    return ProbeAnswer(200 if found.ready else 503, "application/json", body)


async def _explained(found: Readiness, needs: AttentionSource) -> Readiness:
    """Return the readiness with what needs a person among its causes. If brokers or the store answer too slowly,
    the causes of the components must do."""
    try:
        async with asyncio.timeout(EXPLAINED_WITHIN):
            verdicts = await needs.attention()
    except (SkybridgeError, TimeoutError):
        return found
    every = (found.roles or {}).items()
    roles = {role: with_attention(role, state, verdicts) for role, state in every}
    return found.model_copy(update={"roles": roles})


async def readiness(roles: asked.ReadinessSource, only: str | None = None) -> Readiness:
    """Return the readiness of all roles, or of the role ``only``. A role that this process does not run is
    not ready."""
    every = await roles.readiness()
    found = {role: state for role, state in every.items() if only in {None, role}}
    if only is not None and only not in found:
        cause = f"this process does not run the role {only}. Cure: start it with --role {only}"
        found[only] = RoleReadiness(ready=False, causes=[cause])
    return Readiness(ready=all(each.ready for each in found.values()), roles=found)


async def measure(counters: Counters, measured: Measured) -> ProbeAnswer:
    """Return the metrics as Prometheus text."""
    from app.api.status.metrics import render  # noqa: PLC0415 - many processes are never scraped

    families = await measured.metrics()
    counts = counters.values()  # a copy, because the loop keeps counting
    return ProbeAnswer(200, METRICS_TYPE, await asyncio.to_thread(render, counts, families))
