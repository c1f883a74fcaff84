"""The ASGI layer of the admin listener before the FastAPI application: it answers probes and metrics.

An orchestrator and Prometheus send requests every few seconds, and many processes receive no others. The
FastAPI application costs a quarter of the memory and of the start time of a process. So the application is
created only when a request needs it. A thread creates it, so that the event loop stays free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from app.api.access.audit_trail import AuditOutcomes, AuditRecorder
from app.api.access.callers import AdminAccess, caller_of
from app.api.access.guard import LIVENESS, READINESS, Asgi, Scope, TokenGuard, may_read
from app.api.asked.brokers import Brokers
from app.api.asked.readiness import ReadinessSource
from app.api.http.given import ServiceParts
from app.api.http.slices import OnceInThread
from app.api.status.asked import AttentionSource, Measured
from app.api.status.probes import ALIVE, ProbeAnswer, answer_readiness, measure
from app.api.status.recorder import Recorder
from app.errors import SkybridgeError
from app.interfaces import Clock, Notify, Store
from app.sinks.pull_queue import Wakeups
from app.telemetry import Counters

METRICS = "/metrics"
_ROLES = {
    b"": None,
    b"role=gateway": "gateway",
    b"role=worker": "worker",
    b"role=operator": "operator",
}


def create_app(
    given: ServiceParts,
    *,
    allowed: AdminAccess,
    stopped: asyncio.Event,
    recorder: Recorder,
) -> TokenGuard:
    """Create the ASGI application of the admin listener, with its access guard and its audit.

    Args:
        given: The parts of the running service.
        allowed: The tokens that the listener accepts, with their rights.
        stopped: An event that ends all streams when the service stops.
        recorder: The recorder of the history, which the caller runs.
    """
    trail = AuditRecorder(given.of(Store), given.of(Clock), given.of(Notify))

    def application() -> Asgi:
        from app.api.app import create_application  # noqa: PLC0415 - see the top
        from app.api.pull.receive import PullReceiver  # noqa: PLC0415

        app = create_application(given, stopped)
        app.state.trail, app.state.recorder, app.state.guard = trail, recorder, guard
        app.state.hands = PullReceiver(
            given.of(Brokers),
            given.of(Store),
            given.of(Wakeups),
            given.of(Counters),
            given.of(Clock),
            given.of(Notify),
            stopped,
        )
        return app

    guard = TokenGuard(AuditOutcomes(Front(given, application), trail), allowed)
    return guard


class Front:
    """A plain ASGI layer that answers probes and metrics and passes other requests to the application.

    The first other request creates the application with ``make``, in a thread. If ``make`` fails, the next
    request tries again.
    """

    def __init__(self, given: ServiceParts, make: Callable[[], Asgi]) -> None:
        self._given = given
        self._application = OnceInThread(make)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        answer = await self._probe(scope)
        if answer is not None:
            await _send(answer, send)
            return
        app = await self._application.value()
        await app(scope, receive, send)

    async def _probe(self, scope: Scope) -> ProbeAnswer | None:
        """Return the answer to a probe or to a request for metrics. Return None if the application must
        answer. The application also answers a wrong request to a probe."""
        if scope["type"] != "http" or scope["method"] != "GET":
            return None
        path, query = scope["path"], scope["query_string"]
        if path == LIVENESS and not query:
            return ALIVE
        try:
            if path == READINESS and query in _ROLES:
                readiness = self._given.of(ReadinessSource)
                needs = self._given.of(AttentionSource) if may_read(scope) else None
                return await answer_readiness(readiness, _ROLES[query], needs)
            if path == METRICS and not query and _may_measure(scope):
                return await measure(self._given.of(Counters), self._given.of(Measured))
        except SkybridgeError:
            return None
        return None


def _may_measure(scope: Scope) -> bool:
    caller = caller_of(scope)
    return caller is not None and "metrics" in caller.scopes and not caller.binding.is_bound


async def _send(answer: ProbeAnswer, send: Any) -> None:
    headers = [
        (b"content-length", str(len(answer.body)).encode()),
        (b"content-type", answer.media_type.encode()),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
