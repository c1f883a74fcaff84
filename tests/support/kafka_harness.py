"""The harness of the broker contract for Kafka and for other servers of its protocol."""

from __future__ import annotations

from functools import partial
from typing import Any

from app.brokers.kafka import CAPABILITIES, open_log
from app.brokers.portable import PortableLog, PublishBounds
from contract_tools import ANSWERED_WITHIN, CALM, Logs, NumberedPlaces, Restartable

open_calm_log = partial(
    open_log, session_timeout=12.0, request_timeout=ANSWERED_WITHIN, bounds=CALM
)
"""Open a Kafka log with long time-outs, for tests that claim nothing about time-outs.

A member learns of joining and leaving members within a tenth of the session time-out.
"""


class KafkaHarness(NumberedPlaces, Logs):
    """A harness whose logs are on one Kafka cluster."""

    capabilities = CAPABILITIES

    def __init__(self, bootstrap_servers: str, server: Restartable | None = None) -> None:
        super().__init__(server)
        self.bootstrap_servers = bootstrap_servers

    async def make_log(
        self, *, bounds: PublishBounds | None = None, **settings: Any
    ) -> PortableLog:
        servers = self.bootstrap_servers
        more = {"bounds": bounds or CALM} | settings
        return await self.started(open_calm_log(name="kafka", bootstrap_servers=servers, **more))
