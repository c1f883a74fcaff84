"""A service whose file is written anew while it runs, and what it says about that."""

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
    """``settings`` as they were written last. ``folder`` holds file, log, store and ``service.log``."""

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

    def as_at_first(self) -> None:
        """In force again."""
        self.process.settings = copy.deepcopy(self._first)
        self.write()
        status, said = self.reload()
        assert status == 200, said

    def change(self, change: Callable[[Settings], object]) -> None:
        """In the file; nobody is told."""
        change(self.settings)
        self.write()

    def write(self) -> None:
        self.process.write()

    def line_of(self, text: str) -> int:
        """The only line that has it."""
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
        """As Prometheus gets them."""
        return self.process.ask("GET", "/metrics")[1]

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
        headers = {"skybridge-key": "k", "prefer": "return=representation"}
        status, text = self.process.send(str(number), headers=headers, type=kind)
        return status, json.loads(text) if text else None

    def topic_of_next(self) -> str:
        status, receipts = self.post()
        assert status == 200, receipts
        topic: str = receipts[0]["topic"]
        return topic
