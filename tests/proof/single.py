"""One service on loopback with its senders and its webhook, which are in this process, and with a broker of its own.

It needs neither root nor namespaces. Each sender sends one request of its key at a time. All senders together have
few requests under way, so that a kill leaves few events whose outcome is unknown, and wait for late deliveries.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from configuration import configuration, merged, route, subscription
from free_ports import free_ports
from proof.brokers import server_of
from proof.history import Fault
from proof.load import PAUSE, Gateway, Sender, Sizes
from proof.pieces import PieceHistory
from proof.target import Attempts, Target
from rabbitmq_server import RabbitServer
from server_process import ServerProcess
from service_process import ServiceProcess
from waiting import until

SUBSCRIPTION, TOPIC = "steady", "events"
ATTEMPT = 5.0  # seconds of an attempt at the webhook
STALLED = 120.0  # seconds without progress after which a run has failed
PACE = 0.0001  # seconds between two requests of a key; without a pause a sender would not see that it shall stop
REQUESTS = 8  # under way at once, of all senders
LATE = 20_000  # events that wait for their delivery, above which no sender sends


class Turns(AbstractAsyncContextManager[None]):
    """The turns of the senders: a bound of the requests under way, and of the events that are not delivered yet."""

    def __init__(self, history: PieceHistory) -> None:
        self._history, self._free = history, asyncio.Semaphore(REQUESTS)

    async def __aenter__(self) -> None:
        await self._free.acquire()
        while self._history.waiting > LATE:
            await asyncio.sleep(PAUSE)

    async def __aexit__(self, *_: object) -> None:
        self._free.release()


class SingleService:
    """What a run acts on.

    Attributes:
        process: The process of the service.
        broker: Its broker; None for the embedded log.
        target: The webhook.
        senders: One for each key.
        history: The history of this piece.
    """

    def __init__(
        self,
        process: ServiceProcess,
        broker: ServerProcess | None,
        target: Target,
        history: PieceHistory,
    ) -> None:
        self.process, self.broker = process, broker
        self.target, self.history = target, history
        self.senders: list[Sender] = []
        self._stopping = asyncio.Event()
        self._sending: asyncio.Future[Any] | None = None

    def send(self, keys: int, pace: float, sizes: Sizes = Sizes()) -> None:  # noqa: B008
        """Start the senders, which continue the numbers of earlier pieces."""
        totals, turns = self.history.totals, Turns(self.history)
        gateways = [Gateway("service", "127.0.0.1", self.process.events_port)]
        for number in range(keys):
            key = f"key{number}"
            dice = random.Random(f"{totals.seed} {number} {totals.pieces}")
            first = totals.next.get(key, 0)
            self.senders.append(
                Sender(key, gateways, self.history, dice, pace, first, sizes, turns)
            )
        self._sending = asyncio.gather(*(each.run(self._stopping) for each in self.senders))

    async def kill(self) -> None:
        """Kill the service with SIGKILL, and start it again."""
        start = time.monotonic()
        await asyncio.to_thread(self.process.kill)
        await asyncio.to_thread(self.process.start)
        self.history.write(Fault("killed", "service", start, time.monotonic()))

    async def finish(self) -> None:
        """Stop the senders, wait until everything is delivered, and stop the service in order.

        Raises:
            TimeoutError: Nothing moves any more.
            AssertionError: The service did not stop in order.
        """
        assert self._sending is not None
        self._stopping.set()
        await self._sending
        for number, each in enumerate(self.senders):
            self.history.totals.next[f"key{number}"] = each.next
        seen = self.history
        await until(
            lambda: seen.waiting <= 0, "all deliveries", STALLED, 0.1,
            lambda: len(seen.delivered),
        )  # fmt: skip
        assert await asyncio.to_thread(self.process.stop) == 0


@asynccontextmanager
async def single_service(
    folder: Path, history: PieceHistory, **changes: Any
) -> AsyncIterator[SingleService]:
    """Start a service in this folder, and end everything with the block. ``changes`` are of its subscription."""
    target = Target(history, {})
    (port,) = free_ports(1)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Attempts(target, "service"), "127.0.0.1", port, backlog=512
    )
    broker, settings = server_of(history.totals.log)
    with ExitStack() as ended:
        ended.callback(server.close)
        if broker is not None:
            ended.callback(broker.stop)
            broker.start()  # by the main thread, so that it ends with this process
        process = ServiceProcess(
            settings_of(folder, f"http://127.0.0.1:{port}/{SUBSCRIPTION}", settings, **changes),
            folder,
        )
        ended.enter_context(process.ended())
        await asyncio.to_thread(process.start)
        if isinstance(broker, RabbitServer):
            await asyncio.to_thread(
                broker.remember
            )  # it writes declarations to the disk seconds later
        yield SingleService(process, broker, target, history)


def settings_of(
    folder: Path, sink: str, broker: Mapping[str, Any], **changes: Any
) -> dict[str, Any]:
    """Return the configuration: the embedded log, or ``broker`` in its place.

    The embedded log keeps its folder from piece to piece, and its names. A broker is new in each piece.
    """
    name = f"proof{uuid4().hex[:8]}" if broker else "proof"
    retry = {"schedule": ["100ms", "500ms", *["2s"] * 2000], "hold": 2}
    steady = subscription(SUBSCRIPTION, sink, name, timeout=f"{ATTEMPT:g}s", retry=retry, **changes)
    given = configuration(
        folder,
        installation=name,
        routes=[route(name, key={"mapper": "partitionkey", "missing": "reject"})],
        subscriptions=[steady],
        timeouts={"publish": "10s"},
    )
    return merged(given, {"brokers": {"log": {"path": None, **broker}}}) if broker else given
