"""Good senders beside the hostile mixture: none gets a 5xx, and their slowest answer is written down beside a control.

``make nightly ARGS="--part e2e"`` runs five minutes; ``MIXTURE_SECONDS`` sets another length, such as an hour. A run
that was broken off goes on where it was: each slice is a line of ``.servers/nightly/hostile-mixture.jsonl``, with the commit it ran on.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import attackers
from attackers import CONFIGURE, READ, SENDER
from checkout import git
from configuration import configuration, route
from free_ports import free_ports
from kafka_install import SERVERS
from large_requests import EVENT
from raw_http import RawConnection, request
from service_process import serving

LENGTH = 300.0  # seconds
SLICE = 60.0  # seconds of one line of the journal; a tenth of it is the control
SENDERS, EVENTS, EVERY = 10, 5, 0.1  # 500 events/s: 100 requests of five events each second
SLOWEST = 30.0  # seconds: the time-out that senders usually have
GROWTH = (
    200 << 20
)  # bytes of memory over a slice: connections and unfinished bodies have bounds below
JOURNAL = SERVERS / "nightly" / "hostile-mixture.jsonl"
MET = {
    "bad token": {"401"}, "wrong login": {"401", "429"}, "stranger at an intake": {"401", "404"},
    "explain": {"200", "0"}, "check": {"200", "0"}, "idle": {"0"}, "Kafka junk": {"0"},
}  # fmt: skip
"""What attackers are answered: one of these at least, and nothing else. At 0 an attacker has given up. The service
checks a configuration when nothing else needs the processors, so on a busy machine every attacker gives up."""
SECRET = "a-secret-of-both-sides"


def settings(folder: Path, kafka: int) -> dict[str, Any]:
    tokens = [
        {"name": each, "token": token, "scopes": [each]}
        for each, token in (("read", READ), ("configure", CONFIGURE))
    ]
    filters = [{"any": [{"exact": {"type": f"other-{number}"}} for number in range(20)]}]
    listener = {"listen": f"127.0.0.1:{kafka}", "sasl": {"users": {"ann": "a password of ann"}}}
    return configuration(
        folder,
        server={
            "events": {"access": "producers"},
            "admin": {"token": "the-token-of-the-operator", "tokens": tokens},
        },
        producers=[{"name": "sender", "keys": [SENDER], "may": {"routes": ["all"]}}],
        intakes=[{"name": "shop", "preset": "github", "secret": SECRET, "route": "all"}],
        brokers={"log": {"kafka_listener": listener}},
        routes=[
            *(route("rare", name=f"r{number}", filters=filters) for number in range(10)),
            route(key={"mapper": "partitionkey"}),
        ],
        timeouts={"drain": None},
    )


class Answers:
    """What the good senders were answered."""

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.seconds: list[float] = []

    def note(self, status: int, seconds: float) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.seconds.append(seconds)

    @property
    def told(self) -> dict[str, object]:
        found = sorted(self.seconds)
        ms = {
            name: round(found[int(share * (len(found) - 1))] * 1000, 1)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("slowest", 1.0))
        }
        return {"statuses": self.statuses, "events": len(found) * EVENTS, **ms}  # fmt: skip


async def send_for(seconds: float, port: int) -> Answers:
    """Send 500 events a second, each sender in turn and over a connection that it keeps."""
    answers = Answers()
    ends = time.monotonic() + seconds
    await asyncio.gather(*(_send(number, ends, port, answers) for number in range(SENDERS)))
    return answers


async def _send(number: int, ends: float, port: int, answers: Answers) -> None:
    connection = await RawConnection.open(port)
    headers = [
        ("authorization", f"Bearer {SENDER}"),
        ("content-type", "application/cloudevents-batch+json"),
    ]
    due, sent = time.monotonic() + EVERY * number / SENDERS, 0
    try:
        while due < ends:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            sent += 1
            events = [
                {**EVENT, "id": f"{number}-{sent}-{each}", "partitionkey": str(each)}
                for each in range(EVENTS)
            ]
            begun = time.monotonic()
            await connection.send(request(body=json.dumps(events).encode(), headers=headers))
            answer = await connection.answer()
            answers.note(answer.status, time.monotonic() - begun)
            due = max(
                due + EVERY, time.monotonic() - 1.0
            )  # late by a second at most: no flood of our own
    finally:
        await connection.close()


@contextmanager
def attacked(events: int, admin: int, kafka: int) -> Iterator[dict[str, dict[str, int]]]:
    ports = map(str, (events, admin, kafka))
    process = subprocess.Popen(
        [sys.executable, attackers.__file__, *ports], stdout=subprocess.PIPE, text=True
    )
    tries: dict[str, dict[str, int]] = {}
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), "the attackers are at work"
        yield tries
        assert process.poll() is None
    finally:
        process.kill()
        said, _ = process.communicate()
        tries |= json.loads(said.splitlines()[-2])  # the last one may be half a line


def one_slice(folder: Path, seconds: float) -> dict[str, Any]:
    """Start a service, send without attackers for a tenth of the time, then beside them."""
    (kafka,) = free_ports(1)
    with serving(settings(folder, kafka), folder) as service:
        events = service.events_port
        asyncio.run(send_for(1.0, events))  # the first requests make what later ones use
        control = asyncio.run(send_for(max(2.0, seconds / 10), events))
        before = service.resident()
        with attacked(events, service.admin_port, kafka) as tries:
            answers = asyncio.run(send_for(seconds, events))
        return {
            "seconds": seconds,
            "control": control.told,
            "attacked": answers.told,
            "grown": service.resident() - before,
            "tries": tries,
        }


def demand_good(slice_: dict[str, Any]) -> None:
    """Demand that the good senders are answered 202 in time and that the service stays in its bounds."""
    for part in ("control", "attacked"):
        assert set(slice_[part]["statuses"]) <= {202, "202"}, slice_
    assert slice_["attacked"]["slowest"] < SLOWEST * 1000, slice_
    assert slice_["grown"] < GROWTH, slice_


def demand_met(slices: Sequence[dict[str, Any]]) -> None:
    """Demand that each kind of attack reached the service as what it is. All slices together count, because on a busy
    machine an attacker may give up every try of a minute."""
    for name, statuses in MET.items():
        seen = set().union(*(each["tries"][name].keys() for each in slices))
        assert statuses & seen, (name, seen)
        assert seen <= statuses | {"0"}, (name, seen)


@pytest.mark.nightly
@pytest.mark.timeout(0)
def test_good_senders_are_served_beside_the_hostile_mixture(tmp_path: Path) -> None:
    wanted = float(os.environ.get("MIXTURE_SECONDS", LENGTH))
    commit = git("rev-parse", "HEAD").strip()
    JOURNAL.parent.mkdir(parents=True, exist_ok=True)
    lines = JOURNAL.read_text().splitlines() if JOURNAL.exists() else []
    done = [each for each in map(json.loads, lines) if each["commit"] == commit]
    while (left := wanted - sum(each["seconds"] for each in done)) > 0:
        folder = tmp_path / str(len(done))
        folder.mkdir()
        found = {"commit": commit, **one_slice(folder, min(SLICE, left))}
        with JOURNAL.open("a") as journal:
            journal.write(json.dumps(found) + "\n")
        done.append(found)
    for part in ("control", "attacked"):
        slowest = max(each[part]["slowest"] for each in done)
        print(
            f"{part}: {sum(each[part]['events'] for each in done)} events, slowest answer {slowest} ms"
        )
    for each in done:
        demand_good(each)
    demand_met(done)
