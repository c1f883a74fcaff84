"""``helm test``: the program of its pod says whether events are taken and every role does its work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from pages import CHECKOUT

ASKS = CHECKOUT / "helm" / "skybridge" / "files" / "asks.py"


@pytest.fixture
def service() -> Iterator[tuple[str, dict[str, int], list[str]]]:
    """Its address, the status of each path, which a test may change, and what was asked."""
    statuses = {"/events": 200, "/readyz": 200}
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.send_response(statuses[self.path])
            self.end_headers()
            self.wfile.write(b"broker main: away")

        do_OPTIONS = do_GET  # noqa: N815 - as http.server calls it

        def log_message(self, *arguments: object) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", statuses, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def asks(address: str, within: float) -> tuple[int, str]:
    program = f"import runpy, sys; found = runpy.run_path({str(ASKS)!r}); found['main'].__globals__['WITHIN'] = {within}; sys.exit(found['main'](*sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, f"{address}/events", f"{address}/readyz"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_service_that_works_passes_and_gets_no_event(service):
    """A test event would go to the webhooks of the tenant."""
    address, _, asked = service
    assert asks(address, 60) == (0, "events are taken, and every role does its work\n")
    assert asked == ["OPTIONS /events", "GET /readyz"]


def test_a_service_that_is_not_ready_is_told_with_its_causes(service):
    address, statuses, _ = service
    statuses["/readyz"] = 503
    code, said = asks(address, 0)
    assert code == 1
    assert "503 broker main: away" in said
    assert "/events" not in said
