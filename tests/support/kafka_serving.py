"""Run ``skybridge serve`` on the embedded log with its Kafka listener, for third-party clients.

If the machine lacks a client, its test is skipped, or fails if CI=true.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from configuration import configuration
from free_ports import free_ports
from service_process import ServiceProcess
from skipping import skip_or_fail


class KafkaServing(ServiceProcess):
    """A service with a Kafka listener, whose ports and data stay the same after a kill.

    ``partitions`` is the count for topics that clients create by asking for them.
    """

    def __init__(self, folder: Path, partitions: int = 1) -> None:
        (self.kafka_port,) = free_ports(1)
        log = {
            "partitions": partitions,
            "kafka_listener": f"127.0.0.1:{self.kafka_port}",
            "topics": {"guarded": {"validate": "cloudevents"}},
        }
        settings = configuration(folder, installation="clients", brokers={"log": log})
        super().__init__(settings, folder)

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.kafka_port}"

    def restart(self) -> None:
        """Start the service again, after killing it if it still runs."""
        if self.running:
            self.kill()
        self.start()


def need(program: str, package: str) -> None:
    if shutil.which(program) is None:
        skip_or_fail(f"{program} is not on the path (Debian: {package})")
