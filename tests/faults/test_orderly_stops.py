"""SIGTERM at random moments under a hundred open connections, judged by the verifier (issue 9)."""

from __future__ import annotations

import http.client
import os
import signal
from pathlib import Path

import pytest

from configuration import configuration
from restarting_service import end_and_verify
from service_process import ServiceProcess
from verifier_process import Load
from waiting import wait_until

pytestmark = pytest.mark.fault

SHORT = Load(keys=100, per_key=10, kills=2, connections=100)
FULL = Load(keys=200, per_key=500, kills=100, connections=100)


def stop_and_verify(load: Load, folder: Path) -> None:
    """What the service has handled, its client has heard of: nothing is stored that was not answered, so that
    no sender repeats anything; and nothing that was answered is lost (reliability G1, G3, R4)."""

    def stop(service: ServiceProcess) -> None:
        assert service.stop() == 0

    delivered, stored = end_and_verify(load, folder, stop)
    assert delivered["acknowledged"] == stored["acknowledged"] == load.events
    assert (delivered["lost"], stored["lost"]) == (0, 0)
    assert (stored["duplicated"], stored["unacknowledged"]) == (0, 0), "handled, and not answered"
    assert (delivered["duplicated"], delivered["order_breaks"]) == (0, 0), "sent, and not noted"


def test_a_stopping_service_ends_connections_by_answers_while_it_still_accepts(
    tmp_path: Path,
) -> None:
    """A sender then never writes to a connection that the service closes at the same moment: seen in
    Kubernetes as one refused attempt in 8,846."""
    settings = configuration(tmp_path, timeouts={"not_ready": "60s"})
    service = ServiceProcess(settings, tmp_path)
    with service.ended():
        service.start()
        sender = http.client.HTTPConnection("127.0.0.1", service.events_port, timeout=30)
        assert _posted(sender) == (202, None)
        os.kill(service.pid, signal.SIGTERM)
        wait_until(lambda: _posted(sender) == (202, "close"), "an answer that ends the connection")
        assert _posted(sender) == (202, "close"), "also on a new connection"
        service.kill()


def _posted(sender: http.client.HTTPConnection) -> tuple[int, str | None]:
    """Post an event. Return the status, and the header Connection."""
    head = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/", "ce-type": "t"}
    sender.request("POST", "/events", headers=head)
    answer = sender.getresponse()
    answer.read()
    return answer.status, answer.getheader("connection")


def test_two_stops_under_load_lose_nothing_and_answer_all_they_handle(tmp_path: Path) -> None:
    stop_and_verify(SHORT, tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(0)  # each wait ends when nothing moves
def test_a_hundred_stops_under_load_lose_nothing_and_answer_all_they_handle(tmp_path: Path) -> None:
    """The full count of the same claim."""
    stop_and_verify(FULL, tmp_path)
