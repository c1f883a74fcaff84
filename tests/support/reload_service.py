"""A service process whose configuration file changes while it runs, and what it reports about
reloads."""

from __future__ import annotations

import copy
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from configuration import Settings, configuration, route
from service_process import ServiceProcess
from waiting import wait_until

WITHIN = 120.0


class ReloadService:
    """A service process that tests reload.

    Attributes:
        settings: The settings that were written last.
        folder: The folder of the file, the log, the store and ``service.log``.
    """

    def __init__(self, folder: Path, *, watch: str = "0s") -> None:
        self.folder = folder
        self.process = ServiceProcess(
            configuration(
                folder,
                installation="reload",
                routes=[route(name="everything")],
                subscriptions=[],
                reload={"watch": watch},
            ),
            folder,
        )
        self.file = self.process.file
        self.events, self.admin = self.process.events_port, self.process.admin_port
        self._first = copy.deepcopy(self.settings)

    @property
    def settings(self) -> Settings:
        return self.process.settings

    @contextmanager
    def running(self) -> Iterator[Self]:
        with self.process.ended():
            self.process.start()
            yield self

    def restore_first_settings(self) -> None:
        """Write the first settings again, and reload them."""
        self.process.settings = copy.deepcopy(self._first)
        self.write()
        status, said = self.reload()
        assert status == 200, said

    def change(self, change: Callable[[Settings], object]) -> None:
        """Change the settings and write the file, without a reload."""
        change(self.settings)
        self.write()

    def write(self) -> None:
        self.process.write()

    def line_of(self, text: str) -> int:
        """Return the number of the only line of the file that contains the text."""
        lines = self.file.read_text().splitlines()
        (found,) = (n for n, line in enumerate(lines, 1) if text in line)
        return found

    def reload(self) -> tuple[int, Mapping[str, Any]]:
        return self.ask("POST", "/v1/config:reload")

    def hang_up(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    def ask(
        self, method: str, path: str, body: object = None, token: str = ""
    ) -> tuple[int, Mapping[str, Any]]:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            headers["content-type"] = "application/json"
        status, text = self.process.ask(method, path, json.dumps(body) if body else None, headers)
        return status, json.loads(text)

    def metrics(self) -> str:
        """Return the metrics in Prometheus's text format."""
        return self.process.ask("GET", "/metrics")[1]

    def metric(self, name: str) -> dict[str, float]:
        """Return the values of a metric by its labels, as text."""
        lines = [
            line for line in self.metrics().splitlines() if line.startswith(f"skybridge_{name}")
        ]
        pairs = (line.removeprefix(f"skybridge_{name}").rsplit(" ", 1) for line in lines)
        return {labels: float(value) for labels, value in pairs}

    def configuration(self) -> Mapping[str, Any]:
        """Return what ``/status`` reports about the configuration."""
        found: Mapping[str, Any] = self.ask("GET", "/status")[1]["configuration"]
        return found

    def until_reloaded(self, cause: str, before: Mapping[str, Any]) -> Mapping[str, Any]:
        """Wait for the first reload after ``before``, and return its report."""
        wait_until(lambda: self.configuration()["last"] != before["last"], "a reload", WITHIN)
        found = self.configuration()["last"]
        assert found["cause"] == cause
        return found

    def post(self, number: int = 1, kind: str = "t") -> tuple[int, Any]:
        """Send one event on a new connection; return the status and the receipts."""
        headers = {"skybridge-key": "k", "prefer": "return=representation"}
        status, text = self.process.send(str(number), headers=headers, type=kind)
        return status, json.loads(text) if text else None

    def topic_of_next(self) -> str:
        status, receipts = self.post()
        assert status == 200, receipts
        topic: str = receipts[0]["topic"]
        return topic
