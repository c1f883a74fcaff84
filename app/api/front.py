"""The admin listener before its application.

An orchestrator's probes and Prometheus ask every few seconds, and many a process is never asked anything else.
They are answered here. The application, with FastAPI, is a quarter of the memory and of
the start of a process: it is made when the first request comes that needs it, in a thread, so that the loop goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from app.api.access import LIVENESS, READINESS, Asgi, Scope, TokenGuard, may_look
from app.api.answers import Readiness, RoleReadiness
from app.api.audit_trail import Outcomes, Trail
from app.api.callers import Access, caller_of
from app.api.recorder import Recorder
from app.api.running import Running
from app.api.slices import OnceInThread
from app.errors import SkybridgeError

METRICS = "/metrics"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ROLES = {b"": None, b"role=gateway": "gateway", b"role=worker": "worker"}


class Answer(NamedTuple):
    status: int
    media_type: str
    body: bytes


def create_app(
    running: Running,
    *,
    allowed: Access,
    stopped: asyncio.Event,
    recorder: Recorder | None = None,
) -> TokenGuard:
    """``stopped`` ends streams that would otherwise go on for ever. ``recorder``: one that somebody runs."""
    trail = Trail(running)

    def application() -> Asgi:
        from app.api.app import describe  # noqa: PLC0415 - see the top

        app = describe(running, stopped, trail)
        app.state.recorder = recorder or Recorder(running, stopped)
        app.state.guard = guard
        return app

    guard = TokenGuard(Outcomes(Front(running, application), trail), allowed)
    return guard


class Front:
    """A plain ASGI layer. ``make`` makes the application behind it: once, in a thread; after a failure again, for
    the next request."""

    def __init__(self, running: Running, make: Callable[[], Asgi]) -> None:
        self._running = running
        self._application = OnceInThread(make)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        answer = await self._probe(scope)
        if answer is not None:
            await _send(answer, send)
            return
        app = await self._application.value()
        await app(scope, receive, send)

    async def _probe(self, scope: Scope) -> Answer | None:
        """None: the application answers, also what is wrong with the request."""
        if scope["type"] != "http" or scope["method"] != "GET":
            return None
        path, query = scope["path"], scope["query_string"]
        if path == LIVENESS and not query:
            return ALIVE
        try:
            if path == READINESS and query in _ROLES:
                return await probed(self._running, _ROLES[query], looks=may_look(scope))
            if path == METRICS and not query and _may_measure(scope):
                return await measure(self._running)
        except SkybridgeError:
            return None
        return None


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


def _may_measure(scope: Scope) -> bool:
    caller = caller_of(scope)
    return caller is not None and "metrics" in caller.scopes and not caller.binding.is_bound


async def _send(answer: Answer, send: Any) -> None:
    headers = [
        (b"content-length", str(len(answer.body)).encode()),
        (b"content-type", answer.media_type.encode()),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
