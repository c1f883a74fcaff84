"""What one bad neighbour costs the others: an endpoint that hangs among 100, a stuck key among 1,000.

::

    python tests/bench/isolation.py           three rounds, good and bad in turn
    python tests/bench/isolation.py --short   does it work? under a minute

Targets: beside an endpoint that hangs the others keep 95 % of their throughput; beside a key that is refused
again and again the others' p99 stays below 1.2 times. Both are of one process on one embedded log.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import httpx
import lab

from free_ports import free_ports
from waiting import wait_until

ENDPOINTS, KEYS = 100, 1_000
STUCK = "/k0"
WITHIN = 120.0
TURN = 0.5  # seconds between looks at the status of so many subscriptions, which costs the service


class Size(NamedTuple):
    rounds: int
    events: int  # for all endpoints together
    rate: int  # events a second, where delay is measured
    seconds: float


FULL = Size(rounds=3, events=20_000, rate=400, seconds=15.0)
SHORT = Size(rounds=1, events=3_000, rate=200, seconds=3.0)


class Sink:
    def __init__(self, **misbehaviour: str) -> None:
        (self.port,) = free_ports(1)
        options = [f"--{name}={value}" for name, value in misbehaviour.items()]
        self._process = lab.start("isolation_sink.py", f"--port={self.port}", *options)
        wait_until(lambda: lab.listens(self.port), "sink", lab.UP_WITHIN)

    def end(self) -> dict[str, Any]:
        self._process.terminate()
        return lab.result_of(self._process)


def event(number: int, spread: int, **more: str) -> dict[str, Any]:
    source = f"/k{number % spread}"
    return {
        "specversion": "1.0",
        "id": str(number),
        "source": source,
        "type": f"com.example.t{number % ENDPOINTS}",
        "partitionkey": source,
        "data": {"n": number},
        **more,
    }


def post(port: int, events: list[dict[str, Any]]) -> None:
    headers = {"content-type": "application/cloudevents-batch+json"}
    url = f"http://127.0.0.1:{port}/events"
    with httpx.Client(trust_env=False, timeout=30) as client:
        for first in range(0, len(events), 500):
            body = json.dumps(events[first : first + 500]).encode()
            client.post(url, content=body, headers=headers).raise_for_status()


def throughput(folder: Path, size: Size, *, hang: bool) -> float:
    """Deliveries a second to all endpoints but the first, from the first to the last of them."""
    folder.mkdir()
    log = {"kind": "embedded", "path": str(folder / "log")}
    service = lab.Service(folder / "service", log)
    service.start()
    post(service.port, [event(number, KEYS) for number in range(size.events)])
    service.stop()
    sink = Sink(**({"hang": "/0"} if hang else {}))
    service.start(
        tuple(
            {
                "id": f"endpoint-{number}",
                "source": {"broker": "target", "topics": [lab.TOPIC]},
                "start": "earliest",
                "filters": [{"exact": {"type": f"com.example.t{number}"}}],
                "sink": f"http://127.0.0.1:{sink.port}/{number}",
                "handshake": "off",
            }
            for number in range(ENDPOINTS)
        )
    )
    others = [f"endpoint-{number}" for number in range(1, ENDPOINTS)]
    try:
        wait_until(lambda: service.caught_up(others), "all others delivered", WITHIN, turn=TURN)
    finally:
        service.kill()
    told = sink.end()
    count = sum(taken for path, taken in told["taken"].items() if path != "/0")
    assert count >= size.events * (ENDPOINTS - 1) // ENDPOINTS, count
    return float(count / told["seconds"])


def p99(folder: Path, size: Size, *, stuck: bool) -> float:
    """Milliseconds from the post to the arrival, of all keys but the stuck one, at a steady rate."""
    folder.mkdir()
    log = {"kind": "embedded", "path": str(folder / "log"), "partitions": 1}
    service = lab.Service(folder / "service", log)
    sink = Sink(**({"refuse": STUCK} if stuck else {}))
    hook = {
        "id": "hook",
        "source": {"broker": "target", "topics": [lab.TOPIC]},
        "start": "earliest",
        "sink": f"http://127.0.0.1:{sink.port}/",
        "handshake": "off",
    }
    service.start((hook,))
    wait_until(lambda: service.running() == 1, "subscription", lab.UP_WITHIN)
    asyncio.run(steadily(service.port, size))
    service.kill()
    return float(quantiles(sink.end()["delays"], n=100)[98])


async def steadily(port: int, size: Size) -> None:
    """One event a request, begun at even times whatever the answers take."""
    url = f"http://127.0.0.1:{port}/events"
    headers = {"content-type": "application/cloudevents+json"}
    limits = httpx.Limits(max_connections=64)
    async with httpx.AsyncClient(trust_env=False, timeout=30, limits=limits) as client:
        begun, posts = time.monotonic(), []
        for number in range(int(size.rate * size.seconds)):
            await asyncio.sleep(max(0.0, begun + number / size.rate - time.monotonic()))
            body = json.dumps(event(number, KEYS, sentat=str(time.monotonic_ns()))).encode()
            posts.append(asyncio.create_task(client.post(url, content=body, headers=headers)))
        for answer in await asyncio.gather(*posts):
            answer.raise_for_status()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="does it work? under a minute")
    size = SHORT if parser.parse_args().short else FULL
    good, bad, calm, beside = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="skybridge-isolation-") as named:
        folder = Path(named)
        for number in range(size.rounds):
            good.append(throughput(folder / f"good-{number}", size, hang=False))
            bad.append(throughput(folder / f"bad-{number}", size, hang=True))
            calm.append(p99(folder / f"calm-{number}", size, stuck=False))
            beside.append(p99(folder / f"beside-{number}", size, stuck=True))
    print(
        f"one of {ENDPOINTS} endpoints hangs: the others deliver {median(bad):,.0f} a second, ",
        end="",
    )
    print(f"{median(good):,.0f} before: {median(bad) / median(good):.0%} (target 95 %)")
    print(f"one of {KEYS:,} keys is stuck: p99 of the others {median(beside):.1f} ms, ", end="")
    print(f"{median(calm):.1f} before: {median(beside) / median(calm):.2f} times (target 1.2)")


if __name__ == "__main__":
    main()
