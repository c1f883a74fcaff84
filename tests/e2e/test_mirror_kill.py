"""A mirror through SIGKILL, judged by a process that shares no code with the service."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from configuration import configuration, route, subscription
from service_process import ServiceProcess
from waiting import wait_until

pytestmark = pytest.mark.nightly

SUPPORT = Path(__file__).parents[1] / "support"
CONNECTIONS, KEYS = 16, 100
WAYS = [("embedded", "kafka"), pytest.param("kafka", "embedded", marks=pytest.mark.nightly)]
LOADS = [(1, 8), pytest.param(3, 20, marks=pytest.mark.nightly)]  # kills, and events of a key
CONCURRENCY = 64  # attempts in flight
COMMIT_EVERY = 2.0  # seconds: the interval is 0.25 on Kafka, and a machine that stalls adds to it
WITHIN = 240.0


class Verifier:
    """Isolated mode: neither this checkout nor the environment puts ``app`` on its path."""

    def __init__(self, journal: Path, target: Sequence[str], per_key: int) -> None:
        self._per_key = per_key
        self._journal = journal
        self._target = target
        journal.touch()

    @property
    def acknowledged(self) -> int:
        return self._journal.read_bytes().count(b"\n")

    def post(self, port: int) -> subprocess.Popen[bytes]:
        where = f"--events=http://127.0.0.1:{port}/events"
        load = (f"--keys={KEYS}", f"--per-key={self._per_key}", f"--connections={CONNECTIONS}")
        return subprocess.Popen(self._command("post", where, *load))

    def judge(self) -> dict[str, Any]:
        command = self._command("judge", *self._target)
        verdict: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=-1).stdout)
        return verdict

    def _command(self, *words: str) -> list[str]:
        code = f"import sys; sys.path.insert(0, {str(SUPPORT)!r}); import mirror_verifier as v; "
        code += "v.main(sys.argv[1:])"
        return [sys.executable, "-I", "-c", code, *words, f"--journal={self._journal}"]


@pytest.mark.fault
@pytest.mark.kafka
@pytest.mark.parametrize(("source", "target"), WAYS)
@pytest.mark.parametrize(("kills", "per_key"), LOADS)
def test_kills_lose_nothing_and_keep_the_order_of_every_key(
    tmp_path: Path, kafka: str, source: str, target: str, kills: int, per_key: int
) -> None:
    """Rule 2: a message of the source is settled after the target's receipt, not before; what was open
    at a kill comes again, in its order."""
    seed = int(os.environ.get("SKYBRIDGE_SEED") or random.SystemRandom().randrange(10**9))
    print(f"SKYBRIDGE_SEED={seed}")
    name = f"m-{uuid4().hex[:12]}"
    cluster = {
        "kind": "kafka",
        "bootstrap_servers": kafka,
        "session_timeout": "10s",  # a member that stalls on a busy machine is not expelled
        "topics": {"create": True, "partitions": 4},
    }
    copy = {"broker": target, "topic": f"{name}.copy"}
    mirror = subscription("mirror", copy, f"{name}.source", broker=source, concurrency=CONCURRENCY)
    settings = configuration(
        tmp_path,
        installation=name,
        brokers={
            "log": None,
            "embedded": {"kind": "embedded", "path": str(tmp_path / "log")},
            "kafka": cluster,
        },
        routes=[route(f"{name}.source", broker=source)],
        subscriptions=[mirror],
        timeouts={"drain": None},
    )
    file = tmp_path / "log" / "log.db"
    told = [f"--kafka={kafka}", f"--topic={name}.copy"] if target == "kafka" else [f"--file={file}"]
    verifier, total = Verifier(tmp_path / "acknowledged", told, per_key), KEYS * per_key
    service = ServiceProcess(settings, tmp_path)
    with service.ended():
        service.start()
        moments = sorted(random.Random(seed).sample(range(1, total), kills))
        _kill_while_posting(service, verifier, service.events_port, moments)
        report = _settled(service, verifier)
    print(report)
    assert report["acknowledged"] == total
    assert (report["lost"], report["order_breaks"]) == (0, 0)
    # Of the source itself: one event a connection may be stored without its answer, and is repeated.
    # Of the mirror: what was in flight, and what was finished since the last commit.
    open_at_a_kill = CONCURRENCY + report["busiest_second"] * COMMIT_EVERY
    assert report["duplicated"] <= kills * (CONNECTIONS + open_at_a_kill)
    assert report["unacknowledged"] == 0


def _kill_while_posting(
    service: ServiceProcess, verifier: Verifier, port: int, moments: Sequence[int]
) -> None:
    posting = verifier.post(port)
    try:
        for moment in moments:
            wait_until(lambda at=moment: verifier.acknowledged >= at, f"event {moment}", WITHIN)
            service.kill()
            service.start()
        assert posting.wait(WITHIN) == 0
    finally:
        posting.kill()
        posting.wait()


def _settled(service: ServiceProcess, verifier: Verifier) -> dict[str, Any]:
    """The report once nothing is missing any more, or it is late; the file is read when it is at rest."""
    deadline = time.monotonic() + WITHIN
    report = verifier.judge()
    while report["lost"] and time.monotonic() < deadline:
        report = verifier.judge()
    assert service.stop() == 0
    return verifier.judge()
