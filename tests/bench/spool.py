"""How fast a spool drains beside a mirror of the same size, and how long answers take before an outage and after it."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import half
import lab
import logs
import table

from kafka_server import KafkaServer
from waiting import wait_until

RATE = 1_000  # new events a second, while the spool drains and where answers are timed
AFTER = 10.0  # seconds behind the end of the drain, which do not count
SPEED = 0.8  # of a mirror (issue 22)
SAME = 1.2  # of the p99 before the outage, which is called the same
PREFACE = """## Spool

Kafka is killed, the events of a load go to the spool of their route, and Kafka starts again. Microseconds between two copies,
from one tenth of the events to nine tenths, while 1,000 new events a second come in; beside a mirror of as many events from
the same kind of log to a Kafka that was killed and started like the other, where none come in. Then milliseconds from a POST
to its answer at 1,000 events a second, from ten seconds behind the end of the drain on; beside the same before the outage.
"""
HEADINGS = ["what", "measured", "beside", "ratio", "target", "", "memory MB now/peak"]


def measure(
    folder: Path, rounds: int, events: int, seconds: float
) -> tuple[list[table.Row], list[str]]:
    remarks = [f"{rounds} rounds of {events:,} events."]
    speed = table.Row("draining, to Kafka", "a mirror", 1 / SPEED, unit="µs a copy")
    p99 = table.Row("p99 of answers after it", "before the outage", SAME, unit="ms", digits=2)
    server = KafkaServer(brief=False)
    started = lab.attempt(server, "Kafka", remarks)
    with lab.stopping(started):
        if not started:
            return [], remarks
        logs.create_topics(server.bootstrap_servers)
        for number in range(rounds):
            print(f"spool, round {number + 1} of {rounds}", file=sys.stderr)
            at = folder / f"round-{number}"
            at.mkdir()
            speed.floor.append(_mirrored(at / "mirror", server, events))
            with _spooling(at / "spool", server) as service:
                lab.load(service.port, "single", events // 10)  # warm
                p99.floor.append(half.steadily(service, RATE, seconds, 2.0)["p99"])
                speed.measured.append(_drained(service, server, events))
                p99.measured.append(half.steadily(service, RATE, seconds, AFTER)["p99"])
    rates = (
        table.spread([1e6 / each for each in found], 0) for found in (speed.measured, speed.floor)
    )
    return [speed, p99], [
        *remarks,
        "Copies a second: {} draining, {} by the mirror.".format(*rates),
    ]


def _kafka(server: KafkaServer) -> dict[str, Any]:
    return {"kind": "kafka", "bootstrap_servers": server.bootstrap_servers}


def _mirrored(folder: Path, server: KafkaServer, events: int) -> float:
    """Microseconds between two copies."""
    folder.mkdir()
    log = {"kind": "embedded", "path": str(folder / "log")}
    service = lab.Service(folder / "service", log, kafka=_kafka(server))
    service.start()
    lab.load(service.port, "single", events)
    there = logs.stored(server.bootstrap_servers, lab.MIRROR_TOPIC)
    service.stop()
    server.kill()  # a broker that has just started is slower: both copy to one
    server.restart()
    subscription = {
        "id": "mirror",
        "source": {"broker": "target", "topics": [lab.TOPIC]},
        "start": "earliest",
        "sink": {"broker": "kafka", "topic": lab.MIRROR_TOPIC},
        "concurrency": 256,
    }

    def copied() -> int:
        return logs.stored(server.bootstrap_servers, lab.MIRROR_TOPIC) - there

    return 1e6 / lab.drain(service, subscription, copied, events * 9 // 10, events // 10).rate


@contextlib.contextmanager
def _spooling(folder: Path, server: KafkaServer) -> Iterator[lab.Service]:
    folder.mkdir()
    log = {"kind": "embedded", "path": str(folder / "log")}
    spool = {"broker": "log", "when": "outage", "max": "4GiB"}
    service = lab.Service(folder / "service", _kafka(server), route={"spool": spool}, log=log)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def _drained(service: lab.Service, server: KafkaServer, events: int) -> float:
    """Microseconds between two copies. Returns when the spool is empty."""
    there = logs.stored(server.bootstrap_servers, lab.TOPIC)
    server.kill()
    lab.load(service.port, "single", events)
    words = (f"--port={service.port}", f"--rate={RATE}", f"--seconds={lab.LOAD_WITHIN}")
    incoming = lab.start("open_loop.py", *words)
    try:
        server.restart()

        def copied() -> int:
            return logs.stored(server.bootstrap_servers, lab.TOPIC) - there

        wait_until(lambda: copied() >= events // 10, "first copies", lab.LOAD_WITHIN, turn=0.002)
        begun, some = time.monotonic(), copied()
        wait_until(lambda: copied() >= events * 9 // 10, "copies", lab.LOAD_WITHIN)
        passed, done = time.monotonic() - begun, copied() - some
        wait_until(lambda: _waiting(service) == 0, "an empty spool", lab.LOAD_WITHIN, turn=0.1)
    finally:
        incoming.kill()
        incoming.communicate()
    return 1e6 * passed / done


def _waiting(service: lab.Service) -> int:
    with urllib.request.urlopen(service.status) as answer:
        (spool,) = json.load(answer)["spools"]
    return int(spool["records"])
