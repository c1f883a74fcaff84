"""A service whose file is written anew while it runs, and what it says about that."""

from __future__ import annotations

import copy
import http.client
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from service_process import ServiceProcess, free_ports
from waiting import wait_until

WITHIN = 120.0
Settings = dict[str, Any]


class ReloadService:
    """``settings`` as they were written last. ``folder`` holds file, log, store and ``service.log``."""

    def __init__(self, folder: Path, *, watch: str = "0s") -> None:
        self.folder = folder
        self.file = folder / "skybridge.yaml"
        self.events, self.admin = free_ports(2)
        self.settings: Settings = {
            "version": 1,
            "installation": "reload",
            "server": {"events": {"port": self.events}, "admin": {"port": self.admin}},
            "store": {"kind": "sqlite", "path": str(folder / "store.db")},
            "brokers": {"log": {"kind": "embedded", "path": str(folder / "log")}},
            "routes": [{"name": "everything", "to": {"broker": "log", "topic": "events"}}],
            "subscriptions": [],
            "webhooks": {"allow_private": ["127.0.0.0/8"]},
            "timeouts": {"store": "60s", "publish": "60s", "not_ready": "0s", "drain": "5s"},
            "reload": {"watch": watch},
        }
        self._first = copy.deepcopy(self.settings)
        self.write()
        self.process = ServiceProcess(self.file, folder, self.admin)

    @contextmanager
    def running(self) -> Iterator[Self]:
        try:
            self.process.start()
            yield self
        finally:
            if self.process.running:
                self.process.kill()

    def as_at_first(self) -> None:
        """In force again."""
        self.settings = copy.deepcopy(self._first)
        self.write()
        status, said = self.reload()
        assert status == 200, said

    def change(self, change: Callable[[Settings], object]) -> None:
        """In the file; nobody is told."""
        change(self.settings)
        self.write()

    def write(self) -> None:
        """JSON is YAML, a setting a line."""
        self.file.write_text(json.dumps(self.settings, indent=1))

    def line_of(self, text: str) -> int:
        """The only line that has it."""
        lines = self.file.read_text().splitlines()
        (found,) = (n for n, line in enumerate(lines, 1) if text in line)
        return found

    def reload(self) -> tuple[int, Mapping[str, Any]]:
        return self.ask("POST", "/v1/config:reload")

    def hang_up(self) -> None:
        self.process._process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]

    def ask(
        self, method: str, path: str, body: object = None, token: str = ""
    ) -> tuple[int, Mapping[str, Any]]:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            headers["content-type"] = "application/json"
        text = self._raw(self.admin, method, path, json.dumps(body) if body else None, headers)
        return text[0], json.loads(text[1])

    def metrics(self) -> str:
        """As Prometheus gets them."""
        return self._raw(self.admin, "GET", "/metrics", None, {})[1]

    def metric(self, name: str) -> dict[str, float]:
        """By what stands behind its name."""
        lines = [
            line for line in self.metrics().splitlines() if line.startswith(f"skybridge_{name}")
        ]
        pairs = (line.removeprefix(f"skybridge_{name}").rsplit(" ", 1) for line in lines)
        return {labels: float(value) for labels, value in pairs}

    def configuration(self) -> Mapping[str, Any]:
        """What /status says of it."""
        found: Mapping[str, Any] = self.ask("GET", "/status")[1]["configuration"]
        return found

    def until_taken(self, cause: str, before: Mapping[str, Any]) -> Mapping[str, Any]:
        """The first reload behind ``before``."""
        wait_until(lambda: self.configuration()["last"] != before["last"], "a reload", WITHIN)
        found = self.configuration()["last"]
        assert found["cause"] == cause
        return found

    def post(self, number: int = 1, kind: str = "t") -> tuple[int, Any]:
        """One event on a connection of its own. Status, and where it is stored."""
        headers = {
            "ce-specversion": "1.0", "ce-id": str(number), "ce-source": "/s", "ce-type": kind,
            "skybridge-key": "k", "prefer": "return=representation",
        }  # fmt: skip
        status, text = self._raw(self.events, "POST", "/events", "{}", headers)
        return status, json.loads(text) if text else None

    def topic_of_next(self) -> str:
        status, receipts = self.post()
        assert status == 200, receipts
        topic: str = receipts[0]["topic"]
        return topic

    def _raw(
        self, port: int, method: str, path: str, body: str | None, headers: Mapping[str, str]
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()
