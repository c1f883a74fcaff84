"""A service that does nothing but publish what it gets to one topic, as a process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configuration import configuration, route
from service_process import ServiceProcess

PUBLISH = 1.0  # seconds: its publish time-out


class PublishingService:
    """``events`` and ``ready``: its addresses. ``broker``: its settings, for Kafka."""

    def __init__(self, folder: Path, broker: Mapping[str, Any], topic: str) -> None:
        settings = configuration(
            folder,
            brokers={"log": None, "main": {"kind": "kafka", **broker}},
            routes=[route(topic, broker="main")],
            limits={"in_flight_records": 500},
            timeouts={"publish": f"{PUBLISH:g}s"},
        )
        self.process = ServiceProcess(settings, folder)
        self.events = f"{self.process.events_url}/events"
        self.ready = f"{self.process.admin_url}/readyz"
