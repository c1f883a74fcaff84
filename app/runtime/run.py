"""Run a service from its configuration until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

import uvloop

from app.config.check.source import ConfigSource
from app.config.load.loader import Loaded
from app.features.component import ROLES, Role
from app.features.descriptors import raise_limit
from app.features.tracing import begin_traces
from app.runtime.clock import SystemClock
from app.runtime.compose import compose
from app.runtime.heap import settle_heap
from app.runtime.service import Service
from app.runtime.signals import Signals
from app.telemetry import set_up_logging


def run(
    loaded: Loaded,
    *,
    roles: Collection[Role] = ROLES,
    announce: Callable[[Service], None],
    source: ConfigSource | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Run the service until SIGINT or SIGTERM.

    Args:
        loaded: The configuration.
        roles: The roles of this process.
        announce: A function that is called once, when the service accepts requests.
        source: Where the configuration can be read again, or None without a file.
        warnings: The warnings of the configuration, which ``/v1/config`` shows.
    """
    config = loaded.config
    set_up_logging(config.log.level, as_json=config.log.format == "json")
    raise_limit(config)
    begin_traces(config)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO, httpx logs every request
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(loaded, roles, announce, source, warnings))


async def _serve(
    loaded: Loaded,
    roles: Collection[Role],
    announce: Callable[[Service], None],
    source: ConfigSource | None,
    warnings: Sequence[str],
) -> None:
    with Signals(rereads=True) as signals:
        service = compose(loaded, SystemClock(), roles, source, warnings)
        service.hung_up = signals.hung_up
        await service.start()
        settle_heap()
        announce(service)
        await signals.asked.wait()
        await service.stop()
