"""``serve --workers``: one port, several processes, one service."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from consenting import Consenting
from service_process import until
from verifier import Numbered, read_log_file
from workers_service import STARTS_WITHIN, WITHIN, WorkersService, children_of, lives

pytestmark = pytest.mark.nightly

WORKERS = 3
SKYBRIDGE = str(Path(sys.executable).with_name("skybridge"))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkersService]:
    with WorkersService(tmp_path_factory.mktemp("several"), WORKERS).running() as service:
        yield service


def _spread(service: WorkersService, before: dict[str, float]) -> bool:
    return sum(count > before.get(n, 0) for n, count in service.received().items()) > 1


def test_receipts_and_order_are_those_of_one_process(service: WorkersService) -> None:
    """Rule 1, reliability G3: requests answered one after the other are stored one after the other, though
    each came to whichever process the system chose."""
    before = service.received()
    answers = [service.post(number) for number in range(60)]
    assert {status for status, _ in answers} == {200}
    receipts = [receipt for _, (receipt,) in answers]
    assert {(each["broker"], each["topic"]) for each in receipts} == {("log", "events")}
    assert len({each["partition"] for each in receipts}) == 1
    positions = [int(each["position"]) for each in receipts]
    assert positions == list(range(positions[0], positions[0] + 60))
    until(lambda: _spread(service, before), WITHIN, "events at several processes")


def test_metrics_tell_of_every_process(service: WorkersService) -> None:
    """A scrape must not pass one of N off for all."""
    before = sum(service.received().values())
    for number in range(20):
        service.post(number)
    until(lambda: sum(service.received().values()) >= before + 20, WITHIN, "all counted")
    text = service.metrics()
    for number in range(1, WORKERS + 1):
        assert f'skybridge_process_up{{process="{number}"}} 1.0' in text
        assert f'skybridge_process_cpu_seconds_total{{process="{number}"}}' in text


@pytest.mark.parametrize("number", [1, WORKERS])
def test_a_dead_process_is_replaced_and_the_others_go_on(
    service: WorkersService, number: int
) -> None:
    """Reliability R18: one that is killed is there again, and it is said."""
    service.until_all_up()
    before = service.processes()
    pids = [each["pid"] for each in before]
    os.kill(pids[number - 1], signal.SIGKILL)
    service.until_all_up(other_than=pids[number - 1])
    now = service.processes()
    assert now[number - 1]["last_end"] == "it was ended by SIGKILL"
    assert now[number - 1]["restarts"] == before[number - 1]["restarts"] + 1
    assert [each["pid"] for each in now if each["number"] != number] == [
        pid for pid in pids if pid != pids[number - 1]
    ]
    assert service.post(1)[0] == 200
    assert f"process {number} started again" in service.process.log.read_text()


def test_sigterm_answers_what_was_taken_and_leaves_nobody_behind(tmp_path: Path) -> None:
    """Rule 11, reliability R14: what is stored has been answered, and what was answered is stored."""
    answered: list[Numbered] = []
    with WorkersService(tmp_path, WORKERS).running() as service:
        family = [*children_of(service.process.pid), service.process.pid]
        assert len(family) == WORKERS + 1

        def post(key: str) -> None:
            for number in itertools.count():
                try:
                    status, _ = service.post(number, key)
                except OSError:
                    return  # the port is closed
                assert status == 200
                answered.append((key, number))

        senders = [threading.Thread(target=post, args=(f"key-{n}",)) for n in range(8)]
        for sender in senders:
            sender.start()
        until(lambda: len(answered) >= 50, WITHIN, "load")
        assert service.process.stop() == 0
        for sender in senders:
            sender.join(WITHIN)
    assert sorted(answered) == sorted(read_log_file(tmp_path / "log" / "log.db"))
    assert [pid for pid in family if lives(pid)] == []


def test_when_the_parent_is_killed_no_process_outlives_it(tmp_path: Path) -> None:
    """Nobody could stop an orphan, and it would keep the port and the log."""
    service = WorkersService(tmp_path, 2)
    with service.running():
        family = children_of(service.process.pid)
        service.process.kill()
        until(lambda: not any(map(lives, family)), WITHIN, "the end of all processes")
    with service.running():
        assert service.post(1)[0] == 200
        assert service.process.stop() == 0


def test_what_the_first_process_refuses_is_said_once_and_ends_all(tmp_path: Path) -> None:
    """Exit code 2: a setting is wrong. It would be as wrong a second time."""
    service = WorkersService(tmp_path, 3)
    with socket.create_server(("127.0.0.1", service.admin)), service.running(ready=False):
        until(lambda: not service.process.running, STARTS_WITHIN, "its end")
        assert service.process.stop() == 2
    said = service.process.log.read_text()
    assert said.count("cannot listen on") == 1
    assert "server.admin.port" in said


def test_a_consent_is_taken_whichever_process_it_comes_to(tmp_path: Path) -> None:
    """Webhook specification 4.1: the address that is called back is known to process 1 alone; no other
    process may say that there is no such address. What waits is sent at once."""
    with Consenting() as webhook:
        subscription = {
            "id": "billing",
            "source": {"broker": "log", "topics": ["events"]},
            "start": "earliest",
            "sink": webhook.url,
            "handshake": "require",
        }
        service = WorkersService(tmp_path, 4, subscriptions=[subscription], callback=True)
        with service.running():
            assert service.post(1)[0] == 200
            until(lambda: webhook.callbacks != [], WITHIN, "a question")
            nobody = f"http://127.0.0.1:{service.events}/handshake/nobody-asked-this"
            assert {webhook.call(nobody) for _ in range(12)} == {404}
            assert webhook.events == 0
            assert webhook.call(webhook.callbacks[-1]) == 200
            until(lambda: webhook.events == 1, WITHIN, "the event, after the consent")


def test_it_works_as_process_1_of_a_container(tmp_path: Path) -> None:
    """A container has no init: the parent hears signals that the system would else keep from process 1,
    and takes leave of processes that are not its own."""
    unshare = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    if os.geteuid() != 0:
        unshare = ("unshare", "--user", "--map-root-user", *unshare[1:])
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], check=False).returncode
    ):
        if os.environ.get("CI"):
            pytest.fail("this machine makes no process namespaces")
        pytest.skip("this machine makes no process namespaces")
    with WorkersService(tmp_path, 2, program=(*unshare, SKYBRIDGE)).running() as service:
        (first,) = children_of(service.process.pid)
        assert Path(f"/proc/{first}/status").read_text().split("NSpid:")[1].split()[1] == "1"
        family = children_of(first)
        inside = service.processes()[1]["pid"]
        os.kill(family[1], signal.SIGKILL)
        service.until_all_up(other_than=inside)
        family = children_of(first)
        os.kill(first, signal.SIGTERM)
        until(lambda: not service.process.running, WITHIN, "its end")
        assert service.process.stop() == 0
        assert not any(map(lives, family))
