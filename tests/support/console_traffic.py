"""A shop for tests of the console: routes, subscriptions, a producer, and a target that a test can
break.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from console import ConsoleService
from reload_service import WITHIN, Settings
from threaded_http import QuietHandler, ThreadedServer
from waiting import wait_until

KEY = "the-key-of-the-shop-of-the-console"
ORDERS = "com.example.order."
TAKEN = {"id": "{header:ce-id}", "type": "{header:ce-type}", "source": "/partner"}
MAY = {"routes": ["orders", "rest"], "sources": ["/shop*"], "types": ["com.example.*"]}


class Target(ThreadedServer):
    """A webhook target. A test sets its next answers: ``status`` and body ``answer_text``."""

    def __init__(self) -> None:
        super().__init__(_Answer)
        self.status, self.answer_text = 204, ""


class _Answer(QuietHandler):
    server: Target

    def post(self) -> None:
        self.body()
        self.answer(self.server.status, self.server.answer_text.encode(), "application/json")

    def options(self) -> None:
        self.answer(204)


class Shop:
    """A running service with a target. Orders go to ``billing``, which wants new orders only, and
    to ``audit``.
    """

    def __init__(self, service: ConsoleService, target: Target) -> None:
        self.service = service
        self.target = target

    def send(self, number: int, kind: str = "created", *, key: str = "", **data: Any) -> str:
        """Send an event of an order and return its id. Raises AssertionError unless the gateway
        accepts it.
        """
        status, said = self.post(f"order-{number}", f"{ORDERS}{kind}", key=key, **data)
        assert status == 202, said
        return f"order-{number}"

    def post(
        self, id_: str, type_: str, *, key: str = "", path: str = "/events", **data: Any
    ) -> tuple[int, Any]:
        """Post an event in binary mode to a path of the events listener. Return status and answer."""
        headers = {
            "ce-specversion": "1.0", "ce-id": id_, "ce-source": "/shop", "ce-type": type_, "ce-subject": id_,
            "content-type": "application/json", "skybridge-key": key or id_, "authorization": f"Bearer {KEY}",
        }  # fmt: skip
        body = json.dumps(data or {"total": 12.50, "items": ["bridge", "cable"]})
        connection = http.client.HTTPConnection("127.0.0.1", self.service.events, timeout=WITHIN)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        finally:
            connection.close()

    def dead(self, **query: str) -> int:
        """Return the count of dead letters that match the query."""
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        _, said = self.service.ask("GET", f"/v1/dead-letters/count?{asked}")
        found: int = said["total"]
        return found

    def until_dead(self, count: int, **query: str) -> None:
        wait_until(lambda: self.dead(**query) == count, f"{count} dead letters", WITHIN)


@contextmanager
def shop(folder: Path) -> Iterator[Shop]:
    """Run a shop until the block ends."""
    with Target() as target:
        service = ConsoleService(folder, lambda settings: settings.update(_shop(target.address)))
        with service.running():
            yield Shop(service, target)


def _shop(target: str) -> Settings:
    source = {"broker": "log", "topics": ["orders"]}
    plain = {"source": source, "start": "earliest", "handshake": "off", "timeout": "60s"}
    created = [{"exact": {"type": f"{ORDERS}created"}}]
    retry: Mapping[str, Any] = {"schedule": ["100ms"], "hold": 1}
    return {
        "installation": "shop",
        "routes": [
            {
                "name": "orders",
                "filters": [{"prefix": {"type": ORDERS}}],
                "to": {"broker": "log", "topic": "orders"},
            },
            {"name": "rest", "to": {"broker": "log", "topic": "events"}},
        ],
        "subscriptions": [
            {"id": "billing", "sink": f"{target}/billing", "filters": created, "retry": retry, **plain},
            {"id": "audit", "sink": f"{target}/audit", "retry": retry, **plain},
        ],
        "producers": [{"name": "shop", "keys": [KEY], "may": MAY}],
        "intakes": [{"name": "partner", "route": "orders", "verify": {"kind": "none"}, "event": TAKEN}],
    }  # fmt: skip
