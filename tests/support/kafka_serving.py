"""``skybridge serve`` on the embedded log with its Kafka listener, for clients that are not of ours.

What such a client needs and a laptop lacks skips its test there, and fails it where CI=true promises
that it is there.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from configuration import configuration
from lacking import lacking
from service_process import ServiceProcess, free_ports


class KafkaServing(ServiceProcess):
    """Ports and data stay the same through kill and start. ``partitions``: of a topic that comes to be
    by being asked for."""

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
        """Up again, whether it was killed or is still running."""
        if self.running:
            self.kill()
        self.start()


def need(program: str, package: str) -> None:
    if shutil.which(program) is None:
        lacking(f"{program} is not on the path (Debian: {package})")
