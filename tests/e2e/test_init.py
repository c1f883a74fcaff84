"""`skybridge init` in a real terminal: questions, bad answers, and the service that it then runs."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from free_ports import free_ports
from terminal import Terminal, terminal
from threaded_http import QuietHandler, ThreadedServer
from waiting import wait_until

INIT = [sys.executable, "-m", "app", "init"]
EVENT = {
    "ce-specversion": "1.0", "ce-id": "7", "ce-source": "/shop", "ce-type": "com.example.order",
    "content-type": "application/json",
}  # fmt: skip


class Webhooks(ThreadedServer):
    """A webhook that records headers and body of each request."""

    def __init__(self) -> None:
        self.received: list[tuple[Mapping[str, str], bytes]] = []
        received = self.received

        class Hook(QuietHandler):
            def post(self) -> None:
                received.append((dict(self.headers), self.body()))
                self.answer(204)

        super().__init__(Hook)


@pytest.fixture
def webhook() -> Iterator[Webhooks]:
    with Webhooks() as target:
        yield target


def status_of(port: int, method: str, path: str, headers: Mapping[str, str] = {}) -> int:
    """The status that a listener answers, or 0 if nothing answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, b"{}" if method == "POST" else None, dict(headers))
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def answer(shown: Terminal, question: str, *answers: tuple[str, str]) -> None:
    """Type each answer to a question, and read the reaction before the next one."""
    shown.read_until(question)
    for text, reaction in answers:
        shown.read_until("] > ")
        shown.type(text)
        shown.read_until(reaction)


def test_four_answers_make_a_service_that_runs(tmp_path: Path, webhook: Webhooks) -> None:
    """A bad answer is asked again with its reason. The event arrives signed, and its sender needs the key."""
    events, admin = free_ports(2)
    environ = {
        "SKYBRIDGE_SERVER__EVENTS__PORT": str(events),
        "SKYBRIDGE_SERVER__ADMIN__PORT": str(admin),
        "SKYBRIDGE_TIMEOUTS__NOT_READY": "0s",
    }
    with terminal(INIT, tmp_path, environ) as shown:
        answer(shown, "1/4", ("kafak", "Did you mean kafka?"), ("", ""))
        answer(shown, "2/4", ("local, key", "exclude each other"), ("key", ""))
        answer(shown, "3/4", ("billing", "is not a URL"), (f"{webhook.address}/hook", ""))
        answer(shown, "4/4", ("perhaps", "neither yes nor no"), ("yes", ""))
        answer(shown, "skybridge.yaml: 0 errors", ("", "events "))
        wait_until(lambda: status_of(admin, "GET", "/readyz") == 200, "the service", 120)
        key = (tmp_path / "skybridge.key").read_text().strip()
        credential = {"authorization": f"Bearer {key}"}
        assert status_of(events, "POST", "/events", EVENT) == 401
        assert status_of(events, "POST", "/events", {**EVENT, **credential}) == 202
        wait_until(lambda: bool(webhook.received), "the delivery", 120)
        shown.interrupt()
        assert shown.end() == 0
    secret = (tmp_path / "skybridge.signing.secret").read_text().strip()
    headers, body = webhook.received[0]
    Webhook(secret).verify(body, {name.lower(): text for name, text in headers.items()})
    for text in ((tmp_path / "skybridge.yaml").read_text(), shown.shown):
        assert key not in text
        assert secret not in text


def test_an_option_is_not_asked_for(tmp_path: Path) -> None:
    """And the service is only run after a yes."""
    given = ["shop.yaml", "--broker", "embedded", "--senders", "local"]
    with terminal([*INIT, *given], tmp_path, {}) as shown:
        answer(shown, "3/4", ("nowhere", "Run it now?"))
        shown.type("no")
        assert shown.end() == 0
    assert "1/4" not in shown.shown
    assert "2/4" not in shown.shown
    assert "4/4" not in shown.shown  # nothing is sent, so nothing is signed
    assert "next: skybridge serve --config shop.yaml" in shown.shown


def test_the_end_of_input_writes_nothing(tmp_path: Path) -> None:
    """Ctrl+D at a question: the user has thought better of it."""
    with terminal(INIT, tmp_path, {}) as shown:
        answer(shown, "1/4", ("", "2/4"))
        shown.read_until("] > ")
        shown.type_end()
        assert shown.end() == 1
    assert "nothing was written" in shown.shown
    assert list(tmp_path.iterdir()) == []
