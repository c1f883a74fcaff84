"""From a configuration to a process that serves until it is told to leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import uvloop

from app.config.model import Config
from app.runtime.build import ROLES, Role, build
from app.runtime.clock import SystemClock
from app.runtime.heap import settle_heap
from app.runtime.service import Service
from app.runtime.signals import Signals
from app.telemetry import set_up_logging


def run(
    config: Config, *, roles: Collection[Role] = ROLES, announce: Callable[[Service], None]
) -> None:
    """Returns after an orderly end. ``announce`` is called once, when the service accepts."""
    set_up_logging(config.log.level, as_json=config.log.format == "json")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, roles, announce))


async def _serve(
    config: Config, roles: Collection[Role], announce: Callable[[Service], None]
) -> None:
    with Signals() as signals:
        service = Service(build(config, SystemClock(), roles))
        await service.start()
        settle_heap()
        announce(service)
        await signals.asked.wait()
        await service.stop()
