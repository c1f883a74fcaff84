"""Run a service from its configuration until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

import uvloop

from app.config.check.source import ConfigSource
from app.config.load.finding import Finding
from app.config.load.loader import Loaded
from app.config.model.config import Config
from app.errors import SetupError
from app.features.component import ROLES, Role
from app.features.descriptors import raise_limit
from app.features.tracing import begin_traces
from app.interfaces.clock import SystemClock
from app.runtime.awaiting import AwaitedConfiguration
from app.runtime.compose import compose
from app.runtime.heap import settle_heap
from app.runtime.service import Service
from app.runtime.signals import Signals
from app.runtime.standby import Standby
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
    _set_up(loaded.config)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(loaded, roles, announce, source, warnings))


def run_when_valid(
    source: ConfigSource,
    *,
    roles: Sequence[Role],
    announce: Callable[[Service], None],
    warn: Callable[[Sequence[Finding]], None],
) -> None:
    """Run the service as ``run`` does. If the configuration has a fault, wait until it can be used.

    Args:
        source: Where the configuration can be read.
        roles: The roles of this process.
        announce: A function that is called once, when the service accepts requests.
        warn: A function that reports the warnings of a valid configuration.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_when_valid(source, roles, announce, warn))


def _set_up(config: Config) -> None:
    """Set up what the whole process shares: log, descriptors and traces."""
    set_up_logging(config.log.level, as_json=config.log.format == "json")
    raise_limit(config)
    begin_traces(config)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO, httpx logs every request


async def _serve(
    loaded: Loaded,
    roles: Collection[Role],
    announce: Callable[[Service], None],
    source: ConfigSource | None,
    warnings: Sequence[str],
) -> None:
    with Signals(rereads=True) as signals:
        service = compose(loaded, SystemClock(), roles, source, warnings)
        await _start(service, signals)
        await _run_until_asked(service, signals, announce)


async def _serve_when_valid(
    source: ConfigSource,
    roles: Sequence[Role],
    announce: Callable[[Service], None],
    warn: Callable[[Sequence[Finding]], None],
) -> None:
    standby = Standby(roles)
    with Signals(rereads=True) as signals:
        awaited = AwaitedConfiguration(source, standby, signals)
        while not signals.asked.is_set():
            try:
                loaded, findings = await asyncio.to_thread(lambda: source.judge(source.read()))
                _set_up(loaded.config)
                warnings = [str(each) for each in findings]
                service = compose(loaded, SystemClock(), roles, source, warnings, standby.close)
                await _start(service, signals)
            except SetupError as fault:
                await awaited.wait(fault)
                continue
            warn(findings)
            await _run_until_asked(service, signals, announce)
        await standby.close()


async def _start(service: Service, signals: Signals) -> None:
    """Start a service that reloads on SIGHUP. Its start takes the event, so the event is set before."""
    service.hung_up = signals.hung_up
    await service.start()


async def _run_until_asked(
    service: Service, signals: Signals, announce: Callable[[Service], None]
) -> None:
    """Announce a service that has started, and stop it when a signal requests that."""
    settle_heap()
    announce(service)
    await signals.asked.wait()
    await service.stop()
