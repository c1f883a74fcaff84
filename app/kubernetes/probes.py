"""The admin listener of the operator: ``/healthz``, ``/readyz`` and ``/metrics`` alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from app.api.access.guard import Scope, TokenGuard
from app.api.asked.readiness import ReadinessSource, RoleReadiness
from app.api.front import Front
from app.api.http.given import ServiceParts
from app.api.http.problems import MEDIA_TYPE, document
from app.api.status.asked import AttentionSource, Measured
from app.api.status.families import Family, operator_families, ready_families
from app.config.model.config import Config
from app.features.admin import access_of
from app.features.listening import admin_server
from app.model.operator_verdict import OperatorVerdict
from app.telemetry import Counters
from app.telemetry.tasks import FAILURES

ROLE = "operator"


class OperatorProbes:
    """The listener. ``state`` returns what it reports: whether this process leads, why it is not ready, and the number
    of objects by their condition Ready."""

    def __init__(
        self, config: Config, state: Callable[[], tuple[bool, Sequence[str], Mapping[str, int]]]
    ) -> None:
        self._state = state
        parts = ServiceParts()
        parts.add(ReadinessSource, self)
        parts.add(AttentionSource, self)
        parts.add(Measured, self)
        counters = Counters()
        FAILURES.counters = counters
        parts.add(Counters, counters)
        guarded = TokenGuard(Front(parts, lambda: _not_found), access_of(config))
        self._server = admin_server(config, guarded)

    @property
    def url(self) -> str:
        """Return the URL of the listener."""
        return self._server.url

    async def start(self) -> None:
        """Listen. Raise SetupError if the address cannot be used."""
        await self._server.start()

    async def stop(self) -> None:
        """Close the listener."""
        await self._server.stop(0.0)

    async def readiness(self) -> Mapping[str, RoleReadiness]:
        """Return the readiness of the operator. A process that waits for its turn is ready, if it could become the
        leader."""
        causes = [*self._state()[1], *FAILURES.causes()]
        return {ROLE: RoleReadiness(ready=not causes, causes=causes)}

    async def metrics(self) -> Sequence[Family]:
        """Return the metrics of the operator."""
        leads, _, counts = self._state()
        return [*ready_families(await self.readiness()), *operator_families(counts, leads=leads)]

    async def attention(self) -> Sequence[OperatorVerdict]:
        """Return nothing beyond the causes."""
        return ()


async def _not_found(scope: Scope, _receive: Any, send: Any) -> None:
    """Answer 404 to any other request. This is an ASGI application."""
    if scope["type"] != "http":
        return
    detail = "The operator answers /healthz, /readyz and /metrics. The admin API is at operator.admin.url."
    body = msgspec.json.encode(document(404, "not-found", detail))
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", MEDIA_TYPE.encode())]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})
