"""Send a million events through one service that is killed again and again, and judge the history.

::

    PYTHONPATH=tests/support:tests python -m proof.kills --events 1000000 --kills 50 --seed 1
    ... --log kafka            the events go through a server of its own: kafka, rabbitmq or pulsar

The service is a process on loopback with one webhook. Senders and webhook are in this process, which needs neither
root nor namespaces. The kills are spread over the events by the seed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

from configuration import configuration, route, subscription
from proof.checker import judge, report
from proof.history import Delivery, Fault, HistoryWriter, Record, Request, Terms
from proof.load import Gateway, Sender
from proof.target import Target
from service_process import ServiceProcess, free_ports
from waiting import until

SUBSCRIPTION, TOPIC = "steady", "events"
COMMIT = 1.0  # seconds: twice the longest time between two commits; a busy machine needs more
SETTLE = 1.0
STALLED = 120.0
PACE = 0.001  # seconds between two requests of a key; without a pause a sender would not see that it shall stop


class Counting(HistoryWriter):
    """A history that counts what it takes: acknowledged events, and events delivered for the first time."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.acknowledged = self.requests = 0
        self.delivered: set[str] = set()

    def write(self, record: Record) -> None:
        super().write(record)
        if isinstance(record, Request):
            self.requests += 1
            self.acknowledged += len(record.events) if record.status == 202 else 0
        elif isinstance(record, Delivery) and record.status == 204:
            self.delivered.update(each.id for each in record.events)


def settings_of(folder: Path, sink: str, broker: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the configuration: the embedded log, or ``broker`` in its place."""
    name = f"proof{uuid4().hex[:8]}"
    return configuration(
        folder,
        installation=name,
        brokers={"log": {"path": None, **broker} if broker else {}},
        routes=[route(name, key={"mapper": "partitionkey", "missing": "reject"})],
        subscriptions=[subscription(SUBSCRIPTION, sink, name)],
        timeouts={"publish": "10s"},
    )


def server_of(kind: str, ended: ExitStack) -> Mapping[str, Any] | None:
    """Start a server of this kind until the end, and return its settings; None for the embedded log."""
    topics = {"create": True, "partitions": 8}
    if kind == "kafka":
        from kafka_server import KafkaServer

        kafka = KafkaServer()
        ended.callback(kafka.stop)
        kafka.start()
        return {
            "kind": kind,
            "bootstrap_servers": kafka.bootstrap_servers,
            "topics": topics,
            "session_timeout": "6s",
        }
    if kind == "rabbitmq":
        from rabbitmq_server import RabbitServer

        rabbit = RabbitServer()
        ended.callback(rabbit.stop)
        rabbit.start()
        return {
            "kind": kind,
            "addresses": rabbit.address,
            "topics": topics,
            "queue": "{topic}.{group}.{partition}",
        }
    if kind == "pulsar":
        from pulsar_server import PulsarServer

        pulsar = PulsarServer()
        ended.callback(pulsar.stop)
        pulsar.start()
        return {
            "kind": kind,
            "service_url": pulsar.service_url,
            "admin_url": pulsar.admin_url,
            "topics": topics,
        }
    return None


async def kill_again_and_again(
    service: ServiceProcess, history: Counting, asked: argparse.Namespace
) -> None:
    """Kill the service each time that a share of the events is acknowledged, and start it again."""
    dice = random.Random(asked.seed)
    share = asked.events / (asked.kills + 1)
    for number in range(asked.kills):
        wanted = share * (number + dice.uniform(0.5, 1.5))
        await until(
            lambda wanted=wanted: history.acknowledged >= wanted,
            "",
            STALLED,
            0.002,
            lambda: history.requests,
        )
        start = time.monotonic()
        await asyncio.to_thread(service.kill)
        await asyncio.to_thread(service.start)
        history.write(Fault("killed", "service", start, time.monotonic()))
        say(
            f"{number + 1} kills, {history.acknowledged:,} acknowledged, {len(history.delivered):,} delivered"
        )


async def run(asked: argparse.Namespace, folder: Path, ended: ExitStack) -> Path:
    """Run to the last delivery, and return the file of the history."""
    file = folder / "history.jsonl"
    history = Counting(file)
    history.write(Terms({SUBSCRIPTION: TOPIC}, commit=asked.commit, settle=SETTLE))
    (port,) = free_ports(1)
    target = Target(history, {})
    serve = lambda reader, writer: target.attempts("service", reader, writer)  # noqa: E731
    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=512)
    broker = await asyncio.to_thread(server_of, asked.log, ended)
    service = ServiceProcess(
        settings_of(folder, f"http://127.0.0.1:{port}/{SUBSCRIPTION}", broker), folder
    )
    ended.enter_context(service.ended())
    await asyncio.to_thread(service.start)
    stopping = asyncio.Event()
    gateways = [Gateway("service", "127.0.0.1", service.events_port)]
    senders = [
        Sender(f"key{number}", gateways, history, random.Random(f"{asked.seed} {number}"), PACE)
        for number in range(asked.keys)
    ]
    sending = asyncio.gather(*(each.run(stopping) for each in senders))
    begun = time.monotonic()
    await kill_again_and_again(service, history, asked)
    await until(
        lambda: history.acknowledged >= asked.events, "", STALLED, 0.1, lambda: history.requests
    )
    stopping.set()
    await sending
    rate = history.acknowledged / (time.monotonic() - begun)
    say(f"{history.acknowledged:,} acknowledged, {rate:,.0f} a second; waiting for the deliveries")
    await until(
        lambda: len(history.delivered) >= history.acknowledged, "all deliveries", STALLED, 0.1,
        lambda: len(history.delivered),
    )  # fmt: skip
    await asyncio.to_thread(service.stop)
    server.close()
    history.close()
    return file


def say(line: str) -> None:
    print(line, flush=True)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="kills", description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--log", choices=("embedded", "kafka", "rabbitmq", "pulsar"), default="embedded"
    )
    parser.add_argument("--commit", type=float, default=COMMIT, help="seconds a kill may repeat")
    parser.add_argument(
        "--keep", type=Path, help="keep history and log of the service in this folder"
    )
    asked = parser.parse_args(words)
    begun = time.monotonic()
    with ExitStack() as ended:
        folder = asked.keep or Path(
            ended.enter_context(tempfile.TemporaryDirectory(prefix="kills-"))
        )
        folder.mkdir(parents=True, exist_ok=True)
        file = asyncio.run(run(asked, folder, ended))
        seconds = time.monotonic() - begun
        judgement = judge([file])
        say(report(judgement, [file]))
        say(
            f"{asked.log}, seed {asked.seed}: {seconds:.0f} s, judged in {time.monotonic() - begun - seconds:.0f} s"
        )
    return judgement.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
