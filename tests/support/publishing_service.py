"""A service that does nothing but publish what it gets to one topic, as a process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service_process import ServiceProcess, free_ports

PUBLISH = 1.0  # seconds: its publish time-out


class PublishingService:
    """``events`` and ``ready``: its addresses. ``broker``: its settings, for Kafka."""

    def __init__(self, folder: Path, broker: Mapping[str, Any], topic: str) -> None:
        events, admin = free_ports(2)
        self.events = f"http://127.0.0.1:{events}/events"
        self.ready = f"http://127.0.0.1:{admin}/readyz"
        config = folder / "skybridge.yaml"
        config.write_text(json.dumps({
            "version": 1,
            "server": {"events": {"port": events}, "admin": {"port": admin}},
            "store": {"kind": "sqlite", "path": str(folder / "store.db")},
            "brokers": {"main": {"kind": "kafka", **broker}},
            "routes": [{"name": "all", "to": {"broker": "main", "topic": topic}}],
            "limits": {"in_flight_records": 500},
            "timeouts": {"publish": f"{PUBLISH:g}s"},
        }))  # fmt: skip
        self.process = ServiceProcess(config, folder, admin)

    def memory(self) -> int:
        """Resident bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) << 10

    @contextmanager
    def ended(self) -> Iterator[None]:
        """At the end of the block, whatever came of it."""
        try:
            yield
        finally:
            if self.process.running:
                self.process.kill()
