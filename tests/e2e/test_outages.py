"""A broker that is killed under load does not reach senders: the spool takes their events and gives them on.

Judged by a process that shares no code with the service: what was acknowledged is in the target, in the order of
each key, no sender had a 5xx, and only what nobody knew the fate of came twice.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from configuration import configuration, route
from kafka_server import KafkaServer
from pulsar_server import PulsarServer
from rabbitmq_server import RabbitServer
from server_process import ServerProcess
from service_process import ServiceProcess
from waiting import wait_until

pytestmark = [pytest.mark.fault]

SUPPORT = Path(__file__).parents[1] / "support"
KEYS = 100
PARTITIONS = 4
PUBLISH = 20.0  # seconds; no sender waits for so long


class Course(NamedTuple):
    """How a broker is treated. ``up``: events accepted before each kill; ``away``: and until it is up again, at least.
    ``ours``: so many times the service is killed in each of these, and once while it drains.
    ``rate``: events a second; 0: as many as there can be."""

    events: int
    rounds: int = 1
    ours: int = 0
    up: int = 400
    away: int = 600
    rate: int = 0
    connections: int = 16


KILLED = Course(events=6_000)
BOTH_KILLED = Course(events=6_000, ours=1)
FULL = Course(events=160_000, rounds=5, ours=1, up=6_000, away=20_000, rate=2_000, connections=64)
"""Five times ten seconds without the broker, under 2,000 events a second."""


class House:
    """A service with one route, its verifier, and the broker of its target."""

    def __init__(self, folder: Path, server: ServerProcess, when: str = "outage") -> None:
        self.name = f"o-{uuid4().hex[:12]}"
        self.server = server
        self.folder = folder
        orders = route(
            self.name,
            name="orders",
            broker="main",
            spool={"broker": "log", "when": when, "max": "1GiB"},
        )
        settings = configuration(
            folder,
            installation=self.name,
            brokers={
                "main": {**_settings(server), "topics": {"create": True, "partitions": PARTITIONS}}
            },
            routes=[orders],
            timeouts={"publish": f"{PUBLISH}s", "drain": None},
        )
        self.service = ServiceProcess(settings, folder)
        self.events = f"{self.service.events_url}/events"
        self.journal = folder / "acknowledged"
        self.journal.touch()
        self._read = self._acknowledged = 0

    @property
    def acknowledged(self) -> int:
        """By now. What was read before is not read again."""
        with self.journal.open("rb") as journal:
            journal.seek(self._read)
            new = journal.read()
        self._read += len(new)
        self._acknowledged += new.count(b"\n")
        return self._acknowledged

    def post(self, course: Course) -> subprocess.Popen[bytes]:
        load = (
            f"--keys={KEYS}",
            f"--per-key={course.events // KEYS}",
            f"--connections={course.connections}",
        )
        pace = (f"--rate={course.rate}",) if course.rate else ()
        words = self._verifier("post", f"--events={self.events}", *load, *pace)
        return subprocess.Popen(words, stdout=subprocess.PIPE)

    def judge(self) -> dict[str, Any]:
        found = subprocess.run(
            self._verifier("judge", *_told(self.server, self.name)), check=True, stdout=-1
        )
        verdict: dict[str, Any] = json.loads(found.stdout)
        return verdict

    def spool(self) -> dict[str, Any]:
        found: dict[str, Any] = self.service.get("/status")["spools"][0]
        return found

    def until_drained(self) -> dict[str, Any]:
        empty = lambda: self.spool()["state"] == "empty"  # noqa: E731
        left = lambda: self.spool()["records"]  # noqa: E731
        wait_until(empty, "an empty spool", turn=0.1, moved=left)
        return self.spool()

    def _verifier(self, *words: str) -> list[str]:
        """In isolated mode: neither this checkout nor the environment puts ``app`` on its path."""
        code = f"import sys; sys.path.insert(0, {str(SUPPORT)!r}); import mirror_verifier as v; "
        code += "v.main(sys.argv[1:])"
        return [sys.executable, "-I", "-c", code, *words, f"--journal={self.journal}"]


def _settings(server: ServerProcess) -> dict[str, str]:
    match server:
        case KafkaServer():
            return {"kind": "kafka", "bootstrap_servers": server.bootstrap_servers}
        case RabbitServer():
            return {"kind": "rabbitmq", "addresses": server.address}
        case PulsarServer():
            urls = {"service_url": server.service_url, "admin_url": server.admin_url}
            return {"kind": "pulsar", **urls}
    raise TypeError(type(server))


def _told(server: ServerProcess, topic: str) -> list[str]:
    match server:
        case KafkaServer():
            return [f"--kafka={server.bootstrap_servers}", f"--topic={topic}"]
        case RabbitServer():
            return [
                f"--rabbitmq={server.address}",
                f"--topic={topic}",
                f"--partitions={PARTITIONS}",
            ]
        case PulsarServer():
            return [f"--pulsar={server.service_url}", f"--topic={topic}"]
    raise TypeError(type(server))


def _rounds(house: House, posting: subprocess.Popen[bytes], course: Course) -> None:
    """Each time the broker is killed, and up again; of ours, so many are killed while it is away."""
    seed = int(os.environ.get("SKYBRIDGE_SEED") or random.SystemRandom().randrange(10**9))
    print(f"SKYBRIDGE_SEED={seed}")
    dice = random.Random(seed)

    def more(about: int) -> None:
        """So many events more, or all there are."""
        count = house.acknowledged + dice.randrange(about // 2, about * 3 // 2)
        enough = lambda: house.acknowledged >= count or posting.poll() is not None  # noqa: E731
        wait_until(enough, f"event {count}", moved=lambda: house.acknowledged)

    def kill_ours() -> None:
        house.service.kill()
        house.service.start()  # ready, though the broker is away: its events are accepted

    for _ in range(course.rounds):
        more(course.up)
        _remember(house.server, posting)
        house.server.kill()
        for _ in range(course.ours):
            more(course.away // (2 * course.ours))
            kill_ours()
        more(course.away // (2 if course.ours else 1))
        assert house.spool()["records"] > 0 or posting.poll() is not None
        house.server.restart()
        if course.ours:
            more(course.up // 10)
            kill_ours()


def _remember(server: ServerProcess, posting: subprocess.Popen[bytes]) -> None:
    """RabbitMQ 3.10 loses queues that it declared just before. The load waits: it takes seconds."""
    if isinstance(server, RabbitServer):
        posting.send_signal(signal.SIGSTOP)
        server.remember()
        posting.send_signal(signal.SIGCONT)


@pytest.mark.parametrize(
    ("server", "course"),
    [
        pytest.param("own_kafka", KILLED, marks=[pytest.mark.kafka, pytest.mark.nightly]),
        pytest.param("own_kafka", BOTH_KILLED, marks=[pytest.mark.kafka, pytest.mark.nightly]),
        pytest.param("own_rabbitmq", KILLED, marks=[pytest.mark.rabbitmq, pytest.mark.nightly]),
        pytest.param("own_pulsar", KILLED, marks=[pytest.mark.pulsar, pytest.mark.nightly]),
        *(
            pytest.param(f"own_{kind}", FULL, marks=[getattr(pytest.mark, kind), pytest.mark.nightly])
            for kind in ("kafka", "rabbitmq", "pulsar")
        ),
    ],
)  # fmt: skip
@pytest.mark.timeout(0)  # each wait ends when nothing moves
def test_kills_of_the_broker_reach_no_sender_lose_nothing_and_keep_the_order_of_every_key(
    tmp_path: Path, request: pytest.FixtureRequest, server: str, course: Course
) -> None:
    """Rule 1: 202 is said when the spool has the event. What was on the wire when the broker died may come
    twice, and is counted; what was in flight when we died, the sender repeats."""
    house = House(tmp_path, request.getfixturevalue(server))
    house.service.start()
    posting = house.post(course)
    try:
        _rounds(house, posting, course)
        said, _ = posting.communicate()  # it ends by itself when nothing moves
        repeats = house.until_drained()["repeats"]
        report = house.judge()
    finally:
        posting.kill()
        posting.wait()
        if house.service.running:
            house.service.stop()
    assert posting.returncode == 0
    told = json.loads(said)
    print(report, repeats, told)
    assert report["acknowledged"] == course.events
    assert (report["lost"], report["order_breaks"], report["unacknowledged"]) == (0, 0, 0)
    assert told["refused"] == 0
    assert "its events wait in the spool" in house.service.log.read_text()
    if (
        not course.ours
    ):  # else some were counted by a process that is no more, and senders waited for the next
        assert report["duplicated"] <= repeats
        assert told["slowest"] < PUBLISH
