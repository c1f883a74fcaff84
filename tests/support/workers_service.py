"""A service of several processes, looked at from outside: by /status, /proc and signals."""

from __future__ import annotations

import http.client
import json
import re
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from service_process import READY_WITHIN, ServiceProcess, free_ports, until

CONFIG = """
version: 1
installation: several
server:
  workers: {workers}
  events: {{host: 127.0.0.1, port: {events}}}
  admin: {{host: 127.0.0.1, port: {admin}}}
store: {{kind: sqlite, path: {folder}/store.db}}
brokers:
  log: {{kind: embedded, path: {folder}/log}}
routes:
  - name: everything
    to: {{broker: log, topic: events}}
subscriptions: {subscriptions}
webhooks: {webhooks}
timeouts: {{store: 60s, publish: 60s, not_ready: 0s}}
"""
WITHIN = 120.0
STARTS_WITHIN = READY_WITHIN  # seconds for what begins with a start


class WorkersService:
    """``folder`` holds log, store and the file ``service.log``. ``callback``: webhooks may consent later."""

    def __init__(
        self,
        folder: Path,
        workers: int,
        *,
        subscriptions: Sequence[Mapping[str, Any]] = (),
        callback: bool = False,
        program: Sequence[str] | None = None,
    ) -> None:
        self.folder = folder
        self.events, self.admin = free_ports(2)
        config = folder / "skybridge.yaml"
        asked = {"callback": f"http://127.0.0.1:{self.events}"} if callback else {}
        config.write_text(
            CONFIG.format(
                workers=workers,
                events=self.events,
                admin=self.admin,
                folder=folder,
                subscriptions=json.dumps(subscriptions),
                webhooks=json.dumps({"allow_private": ["127.0.0.0/8"], **asked}),
            )
        )
        chosen = {} if program is None else {"program": program}
        self.process = ServiceProcess(config, folder, self.admin, **chosen)

    @contextmanager
    def running(self, *, ready: bool = True) -> Iterator[Self]:
        """Killed at the end, with all of its processes, if it still runs."""
        try:
            if ready:
                self.process.start()
            else:
                self.process.begin()
            yield self
        finally:
            if self.process.running:
                self.process.kill()

    def processes(self) -> list[dict[str, Any]]:
        """Empty while process 1 does not answer."""
        try:
            url = f"http://127.0.0.1:{self.admin}/status"
            with urllib.request.urlopen(url, timeout=60) as answer:
                found: list[dict[str, Any]] = json.load(answer)["processes"]
        except OSError:
            return []
        return found

    def pids(self) -> list[int]:
        return [each["pid"] for each in self.processes()]

    def until_all_up(self, other_than: int = 0) -> None:
        """Every process is there, and none is ``other_than``."""
        until(
            lambda: (
                (found := self.processes()) != []
                and all(each["state"] == "up" and each["pid"] != other_than for each in found)
            ),
            STARTS_WITHIN,
            "all processes",
        )

    def metrics(self) -> str:
        url = f"http://127.0.0.1:{self.admin}/metrics"
        with urllib.request.urlopen(url, timeout=WITHIN) as answer:
            text: str = answer.read().decode()
        return text

    def received(self) -> dict[str, float]:
        """Events taken in, by process."""
        pattern = r'^skybridge_events_received_total\{mode="binary",process="(\d+)"\} (\S+)$'
        return {
            number: float(count)
            for number, count in re.findall(pattern, self.metrics(), re.MULTILINE)
        }

    def post(self, number: int, key: str = "k") -> tuple[int, list[dict[str, Any]]]:
        """One event on a connection of its own: the system chooses the process. Status and receipts."""
        connection = http.client.HTTPConnection("127.0.0.1", self.events, timeout=WITHIN)
        try:
            headers = {
                "ce-specversion": "1.0", "ce-id": str(number), "ce-source": "/s", "ce-type": "t",
                "skybridge-key": key, "prefer": "return=representation",
            }  # fmt: skip
            body = json.dumps({"key": key, "n": number})  # as the verifier finds it in the log
            connection.request("POST", "/events", body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


def lives(pid: int) -> bool:
    """A process that has ended and is waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
