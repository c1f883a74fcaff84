"""A listener of events with intakes over a scripted log, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from app.gateway.intakes import ActiveIntake, Intakes, IntakeState
from app.gateway.server import EventsServer
from app.intakes.compiled import secrets_of
from app.model.intake import Intake
from app.telemetry import Counters
from listening import listening, publishing
from publishers import KEY, SECRET, SignedRequest
from raw_http import RawAnswer, RawConnection, request
from scripted_log import ScriptedLog
from virtual_clock import VirtualClock

ROUTES = (
    {"name": "hooks", "to": {"broker": "log", "topic": "hooks"}, "key": {"mapper": "partitionkey"}},
    {"name": "nothing", "filters": [{"exact": {"type": "never"}}], "to": {"broker": "log", "topic": "n"}},
)  # fmt: skip
EVENT = {
    "id": "{header:x-id}",
    "type": "com.example.{pointer:/kind}",
    "source": "/erp/{pointer:/plant}",
    "subject": "{pointer:/order/id}",
}
INTAKES: tuple[dict[str, Any], ...] = (
    *(
        {"name": preset, "preset": preset, "secret": SECRET, "route": "hooks"}
        for preset in ("github", "gitlab", "stripe", "slack", "shopify")
    ),
    {"name": "standard", "preset": "standard_webhooks", "secret": KEY, "route": "hooks"},
    {
        "name": "erp", "route": "hooks", "event": EVENT,
        "verify": {"kind": "hmac_sha256", "header": "x-mark", "secret": SECRET},
    },
    {
        "name": "key", "route": "hooks", "event": EVENT,
        "verify": {"kind": "api_key", "secret": SECRET},
    },
    {
        "name": "login", "route": "hooks", "event": EVENT,
        "verify": {"kind": "basic", "username": "shop", "password": SECRET},
    },
    {
        "name": "few", "preset": "github", "secret": SECRET, "route": "hooks",
        "quota": {"events": "1/s", "burst": 2},
    },
    {"name": "by-rules", "preset": "github", "secret": SECRET},
)  # fmt: skip


class IntakeBench:
    """A test bench for intakes. ``server`` is set while the listener is open."""

    server: EventsServer

    def __init__(
        self, intakes: Sequence[dict[str, Any]] = INTAKES, *, at_once: bool = True
    ) -> None:
        self.clock = VirtualClock()
        self.counters = Counters()
        self.log: Any = ScriptedLog(at_once=at_once)
        self.publisher = publishing(ROUTES, self.log, self.counters)
        self.intakes = self._opened(intakes)

    def _opened(
        self,
        listed: Sequence[dict[str, Any]],
        memories: Mapping[str, IntakeState] | None = None,
    ) -> Intakes:
        opened = []
        for settings in map(Intake.model_validate, listed):
            secrets = [secret.get_secret_value for secret in secrets_of(settings)]
            opened.append(
                ActiveIntake(settings, secrets, self.clock, (memories or {}).get(settings.name))
            )
        return Intakes(opened, self.counters, ("traceparent",))

    def reload(self, intakes: Sequence[dict[str, Any]] = INTAKES) -> None:
        """Apply other settings to the server, as a reload does."""
        self.intakes = self._opened(intakes, self.intakes.memories())
        self.server.apply(
            msgspec.structs.replace(self.server.resource.policy, intakes=self.intakes)
        )
        self.intakes.take_effect()

    @asynccontextmanager
    async def open(self, **settings: Any) -> AsyncIterator[IntakeBench]:
        async with listening(
            self.publisher, counters=self.counters, intakes=self.intakes, **settings
        ) as server:
            self.server = server
            yield self

    async def post(self, name: str, sent: SignedRequest, *, method: str = "POST") -> RawAnswer:
        async with await RawConnection.open(self.server.port) as peer:
            await peer.send(request(f"/in/{name}", sent.body, headers=sent.headers, method=method))
            return await peer.answer()

    def counted(self, name: str = "intake_requests") -> dict[tuple[str, ...], int]:
        return dict(self.counters.values().get(name, {}))
