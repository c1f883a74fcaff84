"""``server.workers`` above 1: the port is taken, the parent starts, and each process becomes what it is."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections.abc import Collection

import uvloop

from app.config.load import Loaded
from app.config.model import Config, Events
from app.config.source import Source
from app.errors import SetupError
from app.gateway.port import open_port
from app.runtime.build import Role
from app.runtime.clock import SystemClock
from app.runtime.heap import settle_heap
from app.runtime.processes.child import Child
from app.runtime.processes.door import Doors, doors_of
from app.runtime.processes.gateway import Gateway
from app.runtime.processes.owner import Announce, serve_all
from app.runtime.processes.parent import Parent
from app.runtime.processes.slots import OWNER
from app.runtime.service import RELEASE
from app.runtime.signals import Signals

_log = logging.getLogger(__name__)


def run_many(
    loaded: Loaded, roles: Collection[Role], announce: Announce, source: Source | None = None
) -> int:
    """Returns in every process: the exit code in the parent, 0 in the others. Raises SetupError."""
    config, count = loaded.config, loaded.config.server.workers
    if "gateway" not in roles:
        raise SetupError(
            f"{count} processes would take events, and this role takes none",
            setting="server.workers",
            cure="leave it at 1 with --role worker, or run the gateway role too",
        )
    with reserve(config.server.events) as reserved:
        port = reserved.getsockname()[1]
        config = on_port(config, port)
        doors = doors_of(config)
        gc.collect()
        gc.freeze()  # so that what all processes share stays shared
        _log.info("%d processes take events on port %d", count, config.server.events.port)
        outcome = Parent(count, SystemClock(), patience=_patience(config)).run()
        if isinstance(outcome, int):
            return outcome
    outcome.settle()
    if source is not None and outcome.raw is not None:
        loaded = source.load(outcome.raw)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_be(outcome, loaded, port, source, roles, doors, announce))
    return 0


def reserve(events: Events) -> socket.socket:
    """The port, for as long as the parent lives. It is bound and does not listen: no connection waits for a
    process that is away. Refused while anybody else listens, though that is another service of ours."""
    with open_port(events.host, events.port, "server.events.{}") as alone:
        port = alone.getsockname()[1]
        reserved = socket.socket(alone.family, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if reserved.family == socket.AF_INET6:
        reserved.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(events.host != "::"))
    reserved.bind((events.host, port))
    return reserved


def on_port(config: Config, port: int) -> Config:
    """The port that was reserved, whichever the file asks for."""
    events = config.server.events.model_copy(update={"port": port})
    server = config.server.model_copy(update={"events": events})
    return config.model_copy(update={"server": server})


def _patience(config: Config) -> float:
    """Each part of a service has the drain bound, and some; they end in three steps."""
    return config.timeouts.not_ready + 3 * (config.timeouts.drain + RELEASE)


async def _be(
    child: Child,
    loaded: Loaded,
    port: int,
    source: Source | None,
    roles: Collection[Role],
    doors: Doors,
    announce: Announce,
) -> None:
    clock, config = SystemClock(), on_port(loaded.config, port)
    if child.number == OWNER:
        await serve_all(config, loaded, roles, clock, doors, child, announce, source)
        return
    with Signals(patient=True) as signals:
        gateway = Gateway(config, roles, clock, doors, child, source)
        await gateway.start()
        settle_heap()
        await signals.asked.wait()
        await gateway.stop()
