"""The admin listener of a process that waits for a configuration that it can use.

It answers probes and metrics as a service does: the process lives, and no role is ready. All other
requests get 503 with the fault. Only callers with a token of the configuration see the fault.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.api.access.callers import AdminAccess
from app.api.access.guard import Scope, TokenGuard, is_loopback, may_read
from app.api.asked.readiness import ReadinessSource, RoleReadiness
from app.api.front import Front
from app.api.http.given import ServiceParts
from app.api.http.problems import MEDIA_TYPE, document
from app.api.status.asked import AttentionSource, Measured
from app.api.status.families import Family, ready_families, reload_family
from app.config.model.config import Admin, Config
from app.errors import SetupError
from app.features.admin import access_of
from app.features.component import Role
from app.features.listening import admin_server
from app.gateway.server import HttpServer
from app.model.operator_verdict import OperatorVerdict
from app.telemetry import Counters

_log = logging.getLogger(__name__)


class Standby:
    """The admin listener of a process without a service. ``causes`` are the faults of the
    configuration.
    """

    def __init__(self, roles: Sequence[Role]) -> None:
        self.causes: Sequence[str] = ()
        self._roles = roles
        self._server: HttpServer | None = None
        self._admin: Admin | None = None  # the settings of the open listener

    async def open(self, config: Config, causes: Sequence[str]) -> None:
        """Listen where the valid part of a configuration has the admin listener, or go on to listen
        there. If that is impossible, log the reason, because the process waits without a listener too.
        """
        self.causes = causes
        if self._server is not None and config.server.admin == self._admin:
            return
        await self.close()
        server = admin_server(config, TokenGuard(self._front(), _access(config)))
        try:
            await server.start()
        except SetupError as fault:
            _log.error("probes are not answered: %s: %s", fault.setting, fault)
            return
        self._server, self._admin = server, config.server.admin

    async def close(self) -> None:
        """Close the listener, so that the service can open its own."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(0.0)

    async def readiness(self) -> Mapping[str, RoleReadiness]:
        """Return that no role is ready, with the faults."""
        return {role: RoleReadiness(ready=False, causes=[*self.causes]) for role in self._roles}

    async def metrics(self) -> Sequence[Family]:
        """Return the metrics that the alerts of a refused configuration read."""
        return [*ready_families(await self.readiness()), reload_family(successful=False)]

    async def attention(self) -> Sequence[OperatorVerdict]:
        """Return nothing beyond the causes."""
        return ()

    async def refuse(self, scope: Scope, _receive: Any, send: Any) -> None:
        """Answer 503 to any other request. This is an ASGI application."""
        if scope["type"] != "http":
            return
        causes = " ".join(self.causes) if may_read(scope) else ""
        detail = f"The service waits for a configuration that it can use. {causes}".strip()
        body = msgspec.json.encode(document(503, "not-now", detail))
        headers = [
            (b"content-length", b"%d" % len(body)),
            (b"content-type", MEDIA_TYPE.encode()),
            (b"retry-after", b"10"),
        ]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _front(self) -> Front:
        parts = ServiceParts()
        parts.add(ReadinessSource, self)
        parts.add(AttentionSource, self)
        parts.add(Measured, self)
        parts.add(Counters, Counters())
        return Front(parts, lambda: self.refuse)


def _access(config: Config) -> AdminAccess:
    """Return the tokens of the configuration. If other machines can reach the listener and there is
    no valid token, require a token that no caller knows.
    """
    access = access_of(config)
    if access.tokens or is_loopback(config.server.admin.host):
        return access
    return AdminAccess.by(secrets.token_urlsafe())
