"""A service process that only publishes received events to one topic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configuration import configuration, route
from service_process import ServiceProcess

PUBLISH = 1.0  # seconds: the publish timeout of the service


class PublishingService:
    """A service that publishes every event to one topic of Kafka.

    Attributes:
        events: The URL that accepts events.
        ready: The URL of ``/readyz``.

    Args:
        folder: The folder of the process.
        broker: The settings of the Kafka broker.
        topic: The topic to which the service publishes.
    """

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
