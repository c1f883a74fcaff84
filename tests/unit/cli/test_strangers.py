"""What strangers send reaches a terminal and a client: it must neither end a verb in a trace nor speak to the terminal."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer
from typer.testing import CliRunner

from app.cli import admin_client, exits, tail
from app.cli.admin_client import AdminClient
from app.cli.commands import app
from app.cli.receive import _show
from app.cli.receiver import Arrival, Reply, read
from app.problems import problem_type

EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "a\u2028b\u0085c"}
MESSAGE = {"topic": "t", "partition": 0, "position": "1", "key": "\x1b]0;owned\x07", "event": EVENT}
SECRET = "first-line\nsecond-line"

run = CliRunner().invoke


class Answers(BaseHTTPRequestHandler):
    """The same to everybody: ``body``. ``seen``: the headers of the newest request."""

    body = b""
    seen: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        type(self).seen = {
            name.lower(): text.encode("latin-1") for name, text in self.headers.items()
        }
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_PUT = do_GET  # noqa: N815 - the names of the library

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    served = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    thread.join()
    served.server_close()


def test_an_event_with_line_ends_of_unicode_is_one_line_of_a_tail(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U+0085 and U+2028 may stand in a JSON text: one such event ended every tail of its topic."""
    text = json.dumps(MESSAGE, ensure_ascii=False)
    monkeypatch.setattr(Answers, "body", f"data: {text}\n\ndata: {text}\r\n\r\n".encode())
    done = run(app, ["tail", "t", "--server", server, "--json", "--no-follow"])
    assert [json.loads(line) for line in done.stdout.split("\n") if line] == [MESSAGE, MESSAGE]
    done = run(app, ["tail", "t", "--server", server, "--no-follow"])
    assert (done.exit_code, done.exception) == (0, None)


def test_a_key_that_speaks_to_the_terminal_is_not_heard(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Anybody who may write a record chooses its key, headers and body."""
    record = {"headers": [{"name": "h\x1b[2J", "value": "\x9b2J"}], "body": "one\ntwo\x1b[2J"}
    tail.show({**MESSAGE, "record": record})
    key = {"subscription": "s", "key": MESSAGE["key"], "rows": 1, "redriven": 0, "at_ms": 0}
    keys = [{**key, "due_ms": 0, "attempts": 1, "cause": "timeout"}]
    monkeypatch.setattr(AdminClient, "get", lambda *_: {"keys": keys})
    shown = capsys.readouterr().out + run(app, ["parked"]).stdout
    assert "owned" in shown
    assert "one\n" in shown
    assert not {"\x1b", "\x9b", "\x07"} & set(shown)


def test_a_request_that_speaks_to_the_terminal_is_not_heard(
    capsys: pytest.CaptureFixture[str],
) -> None:
    headers = [
        (b"ce-specversion", b"1.0"),
        (b"ce-id", b"1"),
        (b"ce-source", b"/s"),
        (b"ce-type", b"t"),
    ]
    arrival: Arrival = read({"headers": headers, "path": "/\x1b[2J"}, b"one\ntwo\x1b[2J")
    _show(True)(1, arrival, Reply(204))
    shown = capsys.readouterr().out
    assert "one\n" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    "verb",
    [
        ["status", "--server", "{}", "--token"],
        ["tail", "t", "--server", "{}", "--token"],
        ["pull", "s", "--server", "{}", "--token"],
        ["send", "-t", "x", "--url", "{}/events", "--retries", "0", "--credential"],
    ],
)
def test_a_credential_that_no_header_carries_is_an_option_that_is_wrong(
    server: str, verb: list[str]
) -> None:
    """And is not repeated: the client's own refusal quotes the header."""
    done = run(app, [*(word.format(server) for word in verb), SECRET])
    assert done.exit_code == exits.SETUP
    assert verb[-1] in done.stderr
    assert "second-line" not in done.output


@pytest.mark.parametrize("token", ["schlüssel", "  schlüssel\n"])
def test_a_token_goes_as_utf_8_without_the_line_end_of_its_file(
    server: str, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setattr(Answers, "body", b"[]")
    done = run(app, ["topics", "list", "-b", "log", "--server", server, "--token", token])
    assert (done.exit_code, Answers.seen["authorization"]) == (0, "Bearer schlüssel".encode())


def test_a_key_may_be_any_text(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a name of a person: it is UTF-8 on the wire, as everywhere."""
    monkeypatch.setattr(Answers, "body", b"[]")
    done = run(app, ["send", "-t", "x", "-k", "Zoë", "--url", f"{server}/events", "--retries", "0"])
    assert (done.exit_code, Answers.seen["skybridge-key"]) == (0, "Zoë".encode())


@pytest.mark.parametrize(
    ("option", "value"),
    [("-k", "a\nb"), ("--content-type", "a\nb"), ("-a", "Nä=1"), ("-a", "two words=1")],
)
def test_what_no_header_carries_is_told_before_anything_is_sent(option: str, value: str) -> None:
    arguments = ["send", "-t", "x", "--url", "http://127.0.0.1:1/events", "--retries", "0"]
    assert run(app, [*arguments, option, value]).exit_code == exits.SETUP


@pytest.mark.parametrize(
    "verb",
    [
        ["status"],
        ["find", "1"],
        ["subscriptions", "list"],
        ["subscriptions", "create", "--sink", "https://x.example/", "--topic", "t"],
        ["pull", "s", "--no-follow"],
    ],
)
def test_another_server_is_told_apart(
    server: str, monkeypatch: pytest.MonkeyPatch, verb: list[str]
) -> None:
    """A proxy's page with status 200 ended in a trace."""
    monkeypatch.setattr(Answers, "body", b"<html>Sign in</html>")
    done = run(app, [*verb, "--server", server])
    assert done.exit_code == exits.UNREACHABLE
    assert "is not a Skybridge service" in done.stderr


def test_a_file_that_is_nested_without_end_is_told(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 200_000 + "]" * 200_000)
    done = run(app, ["send", str(tmp_path / "deep.json"), "--url", "http://127.0.0.1:1/events"])
    assert done.exit_code == exits.FAILED
    assert "nested too deeply" in done.stderr
    done = run(
        app,
        [
            "send",
            "-t",
            "x",
            "-d",
            "[" * 100_000,
            "--url",
            "http://127.0.0.1:1/events",
            "--retries",
            "0",
        ],
    )
    assert done.exit_code == exits.UNREACHABLE


def test_a_port_that_is_none_is_an_option_that_is_wrong() -> None:
    assert run(app, ["receive", "--port", "99999"]).exit_code == exits.SETUP


@pytest.mark.parametrize(
    ("problem", "cure"),
    [
        ({"code": "unknown-alert", "status": 404}, "Name an alert of the configuration."),
        ({"code": "unknown-producer", "status": 404}, "`skybridge producers list`"),
        ({"code": "unknown-partition", "status": 404}, "`skybridge topics show TOPIC`"),
        ({"code": "not-waiting", "status": 404}, "`skybridge find ID`"),
        ({"code": "paused", "status": 409}, "`skybridge subscriptions resume ID`"),
        ({"code": "not-called", "status": 409}, "`skybridge pull ID`"),
        ({"code": "not-found", "status": 404}, "Name the admin listener"),
        ({"code": "not-authorised", "status": 401}, "SKYBRIDGE_ADMIN_TOKEN"),
        ({"code": "missing-scope", "status": 403, "scope": "data"}, "with the scope data"),
    ],
)
def test_a_refusal_has_the_cure_of_its_problem(
    problem: dict[str, Any], cure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cure was that of the status: a 404 about an alert named topics."""
    document = {"type": problem_type(problem["code"]), "detail": "why", **problem}
    with pytest.raises(typer.Exit):
        admin_client.fail_with_problem("http://a", document)
    assert cure in " ".join(capsys.readouterr().err.split())
