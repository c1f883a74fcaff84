"""What a service writes to its log at its most talkative: ids of events, and neither data nor secrets."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from service_process import ServiceProcess, free_ports, until

DATA = "d4ta-of-the-event"
SECRETS = {
    "token": "t0ken-of-the-admin",
    "password": "p4ss-of-the-hook",
    "sender": "b3arer-of-sender",
}


@pytest.fixture
def hook() -> Iterator[str]:
    """It refuses for good, and says what it was sent: targets do."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hook"
    server.shutdown()
    server.server_close()
    thread.join()


def configuration(folder: Path, hook: str, events: int, admin: int) -> dict[str, Any]:
    return {
        "version": 1,
        "server": {
            "events": {"port": events},
            "admin": {"port": admin, "token": SECRETS["token"]},
        },
        "store": {"kind": "sqlite", "path": str(folder / "store.db")},
        "brokers": {"log": {"kind": "embedded", "path": str(folder / "log"), "partitions": 1}},
        "routes": [{"name": "all", "to": {"broker": "log", "topic": "events"}}],
        "subscriptions": [
            {
                "id": "billing",
                "source": {"broker": "log", "topics": ["events"]},
                "start": "earliest",
                "handshake": "off",
                "sink": hook,
                "auth": {"kind": "basic", "username": "u", "password": SECRETS["password"]},
            }
        ],
        "webhooks": {"allow_private": ["127.0.0.0/8"]},
        "timeouts": {"store": "60s", "publish": "60s", "not_ready": "0s"},
        "log": {"level": "debug", "format": "json"},
    }


def send(port: int, event_id: str, kind: str) -> int:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/events",
        json.dumps({"name": DATA}).encode(),
        {
            "ce-specversion": "1.0",
            "ce-id": event_id,
            "ce-source": "/s",
            "ce-type": kind,
            "ce-subject": DATA,
            "content-type": "application/json",
            "authorization": f"Bearer {SECRETS['sender']}",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_ids_are_told_and_data_and_secrets_are_not(tmp_path, hook):
    """Issue 9, point 5: at level debug, of an event that is refused and of one that ends as a dead letter,
    whose target says the data back."""
    events, admin = free_ports(2)
    config = tmp_path / "skybridge.json"
    config.write_text(json.dumps(configuration(tmp_path, hook, events, admin)))
    service = ServiceProcess(config, tmp_path, admin)
    service.start()
    try:
        assert send(events, "refused-1", "") == 400
        assert send(events, "buried-1", "com.example.order") == 202
        until(lambda: "dead letter" in service.log.read_text(), 120, "dead letter")
    finally:
        service.stop()
    text = service.log.read_text()
    entries = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    told = {entry["message"]: entry for entry in entries}
    assert told["refused"]["event_id"] == "refused-1"
    assert told["refused"]["code"] == "invalid-event"
    assert told["attempt"]["event_id"] == told["dead letter"]["event_id"] == "buried-1"
    assert told["dead letter"]["subscription"] == "billing"
    for canary in (DATA, *SECRETS.values()):
        assert canary not in text, canary
