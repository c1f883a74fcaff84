"""What a service writes to its log at its most talkative: ids of events, and neither data nor secrets."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from configuration import Settings, configuration, subscription
from service_process import ServiceProcess, serving
from threaded_http import QuietHandler, ThreadedServer
from waiting import wait_until

DATA = "d4ta-of-the-event"
SECRETS = {
    "token": "t0ken-of-the-admin",
    "password": "p4ss-of-the-hook",
    "sender": "b3arer-of-sender",
}


@pytest.fixture
def hook() -> Iterator[str]:
    """It refuses for good, and says what it was sent: targets do. Its ``/headers`` says the headers, its
    ``/token`` what it was shown, as a server of tokens that refuses."""

    class Handler(QuietHandler):
        def post(self) -> None:
            body = self.body()
            if self.path != "/hook":
                body = self.refusal() if self.path == "/token" else self.headers.as_bytes()
            self.answer(400, body)

        def options(self) -> None:
            """No rate, and no consent."""
            self.send_response(200)
            self.send_header("WebHook-Allowed-Origin", "*")
            self.send_header("WebHook-Allowed-Rate", self.headers.get("Authorization", ""))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def refusal(self) -> bytes:
            login = self.headers.get("Authorization", "").removeprefix("Basic ")
            words = {"error": base64.b64decode(login).decode(), "error_description": login}
            return json.dumps(words).encode()

    with ThreadedServer(Handler) as server:
        yield f"{server.address}/hook"


def talkative(folder: Path, *subscriptions: Settings) -> Settings:
    return configuration(
        folder,
        server={"admin": {"token": SECRETS["token"]}},
        subscriptions=list(subscriptions),
        log={"level": "debug", "format": "json"},
    )


def masked(hook: str) -> list[Settings]:
    """Return a subscription of each kind of credential, to a target or a server of tokens that says it back."""
    password = SECRETS["password"]
    auths: dict[str, dict[str, Any]] = {
        "basic": {"kind": "basic", "username": "u", "password": password},
        "api": {"kind": "api_key", "secret": password},
        "bearer": {"kind": "bearer", "token": password},
        "oauth": {"kind": "oauth2", "client_id": "u", "client_secret": password}
        | {"token_endpoint": hook.replace("/hook", "/token")},
    }
    sink = hook.replace("/hook", "/headers")
    asked = subscription("asked", sink, auth=auths["basic"], handshake="require")
    return [
        *(subscription(name, sink, auth=auth, handshake="ask") for name, auth in auths.items()),
        asked,
    ]


def shown(service: ServiceProcess, path: str) -> str:
    return service.ask("GET", path, headers={"Authorization": f"Bearer {SECRETS['token']}"})[1]


def send(service: ServiceProcess, event_id: str, kind: str) -> int:
    headers = {"authorization": f"Bearer {SECRETS['sender']}"}
    data = json.dumps({"name": DATA})
    return service.send(event_id, data, headers, type=kind, subject=DATA)[0]


def test_ids_are_told_and_data_and_secrets_are_not(tmp_path, hook):
    """Issue 9, point 5: at level debug, of an event that is refused and of one that ends as a dead letter,
    whose target says the data back."""
    basic = {"kind": "basic", "username": "u", "password": SECRETS["password"]}
    settings = talkative(tmp_path, subscription("billing", hook, auth=basic))
    with serving(settings, tmp_path) as service:
        assert send(service, "refused-1", "") == 400
        assert send(service, "buried-1", "com.example.order") == 202
        wait_until(lambda: "dead letter" in service.log.read_text(), "dead letter", 120)
    text = service.log.read_text()
    entries = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    told = {entry["message"]: entry for entry in entries}
    assert told["refused"]["event_id"] == "refused-1"
    assert told["refused"]["code"] == "invalid-event"
    assert told["attempt"]["event_id"] == told["dead letter"]["event_id"] == "buried-1"
    assert told["dead letter"]["subscription"] == "billing"
    for canary in (DATA, *SECRETS.values()):
        assert canary not in text, canary


def test_credentials_that_a_target_echoes_are_masked(tmp_path, hook):
    """Wherever an answer is quoted: the log, what the API shows, the store."""
    with serving(talkative(tmp_path, *masked(hook)), tmp_path) as service:
        assert send(service, "1", "com.example.order") == 202
        wait_until(
            lambda: shown(service, "/v1/dead-letters").count('"status-400"') >= 3, "letters", 120
        )
        wait_until(lambda: "no token from" in shown(service, "/status"), "a refused token", 120)
        wait_until(lambda: "did not consent" in shown(service, "/status"), "a refusal", 120)
        wait_until(lambda: "Authorization: B" in shown(service, "/v1/attempts"), "an attempt", 120)
        told = [shown(service, path) for path in ("/v1/attempts", "/v1/dead-letters", "/status")]
    told += [file.read_bytes().decode("latin-1") for file in tmp_path.glob("store.db*")]
    told.append(service.log.read_text())
    for text in told:
        assert SECRETS["password"] not in text
        assert base64.b64encode(f"u:{SECRETS['password']}".encode()).decode() not in text
