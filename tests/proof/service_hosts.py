"""The service in the laboratory: gateways and workers, each on a host of its own, of one configuration."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from configuration import merged, written
from pages import CHECKOUT
from proof.hosts import Host
from proof.network import Network
from proof.processes import HostProcess
from proof.programs import SEARCHED

GATEWAYS = ("gateway1", "gateway2")
WORKERS = ("worker1", "worker2", "worker3")
SUBSCRIPTIONS = ("steady", "moody")
"""The target answers 204 to ``steady``. It refuses some keys of ``moody`` while a scenario says so, so they park."""
EVENTS_PORT, ADMIN_PORT, TARGET_PORT = 8080, 8081, 8090
ATTEMPT = 5.0  # seconds of an attempt at a target
TOKEN = "of-the-laboratory-alone"
_ROLES = {"gateway": "gateway", "worker": "worker"}


def configuration_of(
    *, installation: str, topic: str, broker: Mapping[str, Any], dsn: str, target: str
) -> dict[str, Any]:
    """Return the configuration that all processes of a run share.

    Args:
        installation: The name of the installation, which is new in each run.
        topic: The topic of all events.
        broker: The settings of the broker.
        dsn: The address of the store.
        target: The address of the host with the webhooks.
    """
    return {
        "version": 1,
        "installation": installation,
        "server": {
            "events": {"host": "0.0.0.0", "port": EVENTS_PORT, "access": "open"},
            "admin": {"host": "0.0.0.0", "port": ADMIN_PORT, "token": TOKEN},
        },
        "store": {"kind": "postgresql", "dsn": dsn},
        "brokers": {"main": dict(broker)},
        "routes": [
            {
                "name": "all",
                "to": {"broker": "main", "topic": topic},
                "key": {"mapper": "partitionkey", "missing": "reject"},
            }
        ],
        "subscriptions": [
            {
                "id": name,
                "source": {"broker": "main", "topics": [topic]},
                "start": "earliest",
                "sink": f"http://{target}:{TARGET_PORT}/{name}",
                "handshake": "off",
                "timeout": ATTEMPT,
                "retry": {"schedule": ["100ms", "500ms", *["2s"] * 2000], "hold": 2},
            }
            for name in SUBSCRIPTIONS
        ],
        "webhooks": {"allow_private": ["10.0.0.0/8"]},
        "timeouts": {"publish": "10s", "not_ready": "0s", "drain": "10s"},
    }


class Service(HostProcess):
    """``skybridge serve`` in one role. ``gives_up`` is what it gives up in its code, for a control."""

    def __init__(
        self, host: Host, folder: Path, settings: Mapping[str, Any], gives_up: str = ""
    ) -> None:
        super().__init__(host, folder / host.name)
        self.settings = settings
        self._gives_up = gives_up
        self._role = _ROLES[host.name.rstrip("0123456789")]

    def prepare(self) -> None:
        written(self.settings, self.folder)

    def command(self) -> Sequence[str]:
        file = str(self.folder / "skybridge.yaml")
        unsafe = [sys.executable, "-m", "proof.unsafe", self._gives_up]
        program = unsafe if self._gives_up else [str(CHECKOUT / ".venv/bin/skybridge")]
        return [*program, "serve", "--config", file, "--role", self._role]

    def environ(self) -> Mapping[str, str]:
        return {"PYTHONPATH": f"{SEARCHED}:{CHECKOUT}"} if self._gives_up else {}

    @property
    def lacked_store(self) -> bool:
        """Return True if the last start failed because the store did not answer (``docs/guides/store.md``). An orchestrator starts
        such a program again."""
        return any(
            line.startswith("error store.dsn") for line in self.log.read_text().splitlines()[-3:]
        )

    def answers(self) -> bool:
        try:
            return self.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def ask(
        self, method: str, path: str, body: Any = None, timeout: float = 30.0
    ) -> tuple[int, Any]:
        """Send a request to the admin listener, and return its status and JSON. Raises OSError without an answer."""
        connection = http.client.HTTPConnection(self.host.address, ADMIN_PORT, timeout=timeout)
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        try:
            connection.request(method, path, json.dumps(body or {}), headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()


def services(
    network: Network,
    folder: Path,
    settings: Mapping[str, Any],
    changes: Mapping[str, Any],
    gives_up: str = "",
) -> dict[str, Service]:
    """Return all gateways and workers, not started, with the changes (a JSON merge patch) in their settings."""
    whole = merged(settings, changes)
    return {name: Service(network[name], folder, whole, gives_up) for name in (*GATEWAYS, *WORKERS)}
