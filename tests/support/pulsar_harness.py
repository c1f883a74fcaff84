"""The harness by which the broker contract makes Pulsar logs."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from app.brokers.portable import PortableLog, PublishBounds
from app.brokers.pulsar import CAPABILITIES, open_log
from contract_tools import ANSWERED_WITHIN, CALM, Logs, running
from pulsar_server import PulsarServer

open_calm_log = partial(
    open_log,
    operation_timeout=ANSWERED_WITHIN,
    connect_timeout=ANSWERED_WITHIN,
    send_timeout=ANSWERED_WITHIN,
    bounds=CALM,
)
"""Open a Pulsar log with long timeouts, for tests that do not test timeouts."""


class PulsarHarness(Logs):
    """A harness that makes logs on one Pulsar cluster."""

    capabilities = CAPABILITIES
    outside = "999999:0"

    def __init__(self, addresses: tuple[str, str], server: PulsarServer | None = None) -> None:
        super().__init__(server)
        self.addresses = addresses

    def rank(self, position: str) -> tuple[int, ...]:
        return tuple(int(part) for part in position.split(":"))

    def after(self, position: str) -> str:
        ledger, entry = self.rank(position)
        return f"{ledger}:{entry + 1}"

    async def make_log(
        self, *, bounds: PublishBounds | None = None, **settings: Any
    ) -> PortableLog:
        service_url, admin_url = self.addresses
        bounds = bounds or CALM
        calm: dict[str, Any] = {"bounds": bounds, "send_timeout": bounds.publish_timeout}
        log = open_calm_log(
            name="pulsar", service_url=service_url, admin_url=admin_url, **(calm | settings)
        )
        return await self.started(log)


def calm_log(addresses: tuple[str, str]) -> AbstractAsyncContextManager[PortableLog]:
    """Run a log until the block ends."""
    service_url, admin_url = addresses
    return running(open_calm_log(name="pulsar", service_url=service_url, admin_url=admin_url))
