"""SIGKILL at random moments, judged by a verifier that shares no code with the service."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from disturbed import COMMIT_EVERY, CONCURRENCY, CONFIG, end_and_verify
from service_process import ServiceProcess, free_ports, until
from verifying import Load

SHORT = Load(keys=100, per_key=10, kills=2, deadline=600)
FULL = Load(keys=200, per_key=100, kills=20, deadline=400)


def kill_and_verify(load: Load, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    return end_and_verify(load, folder, ServiceProcess.kill)


def assert_kept(load: Load, delivered: dict[str, Any], stored: dict[str, Any]) -> None:
    assert delivered["acknowledged"] == stored["acknowledged"] == load.events
    assert (delivered["lost"], stored["lost"]) == (0, 0)
    assert (delivered["order_breaks"], stored["order_breaks"]) == (0, 0)
    # A kill may leave one event a connection stored without its answer; the sender repeats it.
    assert stored["duplicated"] <= load.kills * load.connections
    # Rule 2: what was in flight, and what was finished since the last commit, comes again.
    open_at_a_kill = CONCURRENCY + delivered["busiest_second"] * COMMIT_EVERY
    assert delivered["duplicated"] <= stored["duplicated"] + load.kills * open_at_a_kill


EVENTS = 50
WITHIN = 240.0  # seconds; every wait ends with its condition


@contextmanager
def counting(port: int) -> Iterator[list[str]]:
    """A webhook, and the ids that it was sent, each as often as it came."""
    taken: list[str] = []

    class Webhook(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            taken.append(self.headers["ce-id"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = (
            256  # else the system drops some of 64 connections, and their attempts are repeated
        )

    server = Server(("127.0.0.1", port), Webhook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield taken
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def asked(
    port: int, method: str, path: str, body: bytes = b"", kind: str = ""
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN)
    try:
        connection.request(method, path, body, {"content-type": kind} if kind else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def posted(port: int, events: list[dict[str, Any]]) -> int:
    kind = "application/cloudevents-batch+json"
    return asked(port, "POST", "/events", json.dumps(events).encode(), kind)[0]


def lags(admin: int) -> set[int]:
    groups = json.loads(asked(admin, "GET", "/v1/topics/log/events/offsets")[1])["groups"]
    return {each["lag"] for each in groups}


def an_event(number: int) -> dict[str, Any]:
    kind = {"specversion": "1.0", "source": "/kill", "type": "t"}
    return {**kind, "id": str(number), "partitionkey": f"k{number % 7}", "data": number}


def kill_at_rest(rounds: int, folder: Path) -> None:
    """``rounds`` times: 50 events are delivered, the lag is told as 0, the service is killed at once."""
    events, admin, webhook = free_ports(3)
    config = folder / "skybridge.yaml"
    config.write_text(
        CONFIG.format(
            events=events, admin=admin, webhook=webhook, folder=folder, concurrency=CONCURRENCY
        )
    )
    service = ServiceProcess(config, folder, admin)
    with counting(webhook) as taken:
        service.start()
        for number in range(rounds):
            batch = [an_event(number * EVENTS + each) for each in range(EVENTS)]
            assert posted(events, batch) == 202
            told = (number + 1) * EVENTS
            until(lambda told=told: len(taken) >= told, WITHIN, f"{told} deliveries")
            until(lambda: lags(admin) == {0}, WITHIN, "lag 0")
            service.kill()
            service.start()
        batch = [an_event(rounds * EVENTS)]  # behind whatever the last kill would bring again
        assert posted(events, batch) == 202
        until(lambda: batch[0]["id"] in taken, WITHIN, "the event behind the last kill")
        until(lambda: lags(admin) == {0}, WITHIN, "lag 0")
        assert service.stop() == 0
    assert Counter(taken) == Counter(str(each) for each in range(rounds * EVENTS + 1))


@pytest.mark.fault
def test_a_kill_after_lag_0_was_told_repeats_nothing(tmp_path):
    """What is told as committed is on the disk (rule 2)."""
    kill_at_rest(2, tmp_path)


@pytest.mark.fault
@pytest.mark.nightly
def test_twenty_kills_after_lag_0_was_told_repeat_nothing(tmp_path):
    """The full count of the same claim (rule 2)."""
    kill_at_rest(20, tmp_path)


@pytest.mark.fault
def test_two_kills_in_1000_events_lose_nothing_and_keep_the_order_of_every_key(tmp_path):
    """Acknowledged means kept, through SIGKILL at any moment (reliability G1, G3, R3, R4)."""
    assert_kept(SHORT, *kill_and_verify(SHORT, tmp_path))


@pytest.mark.fault
@pytest.mark.nightly
def test_twenty_kills_in_20000_events_lose_nothing_and_keep_the_order_of_every_key(tmp_path):
    """The full count of the same claim (reliability G1, G3, R3, R4)."""
    assert_kept(FULL, *kill_and_verify(FULL, tmp_path))
