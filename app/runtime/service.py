"""A service from its start to its end. The order is the guarantee.

start   store and logs, then the admin listener, so that it can say what is missing; then who needs
        them: subscriptions, behind them clients of Kafka, last of all the events listener
stop    not ready, for as long as a load balancer needs to notice; then nothing new is taken, what is
        under way is finished or released and committed; then logs and store are closed (rule 11)

A broker that is away is no reason not to start: readiness says so, and it heals by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from app.api.access.audit_trail import Trail
from app.api.access.guard import demand_token
from app.api.front import create_app
from app.api.status.configured import Configured
from app.api.status.recorder import Recorder
from app.brokers.portable import PortableLog
from app.config.check.source import Source
from app.config.model.brokers import EmbeddedBroker
from app.console.files import Console
from app.gateway.listener import Listener
from app.gateway.server import HttpServer
from app.model.log_name import LogName
from app.runtime.build import Parts, limits_of, tls_of
from app.runtime.logs import declare_subscriptions, routes_with_spools
from app.runtime.reload.reloader import Reloader
from app.runtime.reload.renewal import Renewal, access_of
from app.runtime.reload.watching import hear, watch, watch_files
from app.runtime.state import State
from app.runtime.store_watcher import StoreWatcher
from app.runtime.tracing import end_traces
from app.telemetry.tasks import FAILURES, keep

LAST_WORDS = 5.0  # seconds for operator events and attempts that wait, when all others have left
RELEASE = 5.0  # seconds beyond the drain bound; a part that takes longer is left behind
TAKEN = 10.0  # seconds for subscriptions to take their groups, before clients of Kafka may come

_log = logging.getLogger(__name__)

_LAST_ANSWERS = 1.0  # seconds that the admin listener has for what is due, behind everything else


class Service:
    """``start`` returns when it accepts; ``events_url`` and ``admin_url`` then say where."""

    def __init__(
        self,
        parts: Parts,
        *,
        source: Source | None = None,
    ) -> None:
        """``source``: where its configuration can be read again."""
        self.parts = parts
        self.state = State(parts)
        self._following = StoreWatcher(
            parts.catalog, parts.supervisor, parts.logs, parts.clock, parts.callbacks
        )
        self.events_url = ""
        self._streams_end = asyncio.Event()
        self._closing = contextlib.AsyncExitStack()
        given = self.state.given()
        self._recorder = Recorder(
            self.state, parts.store, parts.counters, parts.clock, self._streams_end
        )
        self._guard = create_app(
            given,
            allowed=access_of(parts.config),
            stopped=self._streams_end,
            recorder=self._recorder,
        )
        self.console = Console(self._guard, shown=parts.config.server.admin.console)
        admin = Listener(limits_of(parts.config, admin=True))
        self._admin = self._admin_server(admin)
        loaded = parts.catalog.loaded
        self._renewal = renewal = Renewal(
            parts, self.state, self._following, self._guard, self.console, admin
        )
        trail = Trail(parts.store, parts.clock, self.state.notify)
        self.reloader = Reloader(source, loaded, renewal, parts.clock, parts.counters, trail)
        self.state.configured = self.reloader
        given.add(Configured, self.reloader)
        self.hung_up = asyncio.Event()
        self._rereading: list[asyncio.Task[None]] = []

    @property
    def admin_url(self) -> str:
        return self._admin.url

    async def start(self) -> None:
        """Raises SetupError, with everything that had started stopped again."""
        FAILURES.counters = self.parts.counters
        try:
            await self._start()
        except BaseException:
            if self.parts.supervisor is not None:
                await bounded("subscriptions", self.parts.supervisor.stop, 0.0, 0.0)
            await self._closing.aclose()
            raise
        self.state.begun = True
        self._tell_of_console()
        self._recording = keep("history", self._recorder.run)
        self._rereading = [
            keep("configuration-file", partial(watch, self.reloader, self.parts.clock)),
            keep("named-files", partial(watch_files, self.reloader, self.parts.clock)),
            keep("configuration-signal", partial(hear, self.hung_up, self.reloader)),
        ]

    async def _start(self) -> None:
        parts, drain = self.parts, self.parts.config.timeouts.drain
        self._closing.push_async_callback(bounded, "traces", end_traces, LAST_WORDS)
        await parts.store.start()
        self._closing.push_async_callback(parts.store.stop)
        self._closing.push_async_callback(parts.issuers.stop)
        await parts.registry.rotate()
        await parts.catalog.load()
        opened: dict[LogName, PortableLog] = {}
        self._closing.push_async_callback(_close_logs, opened, drain)
        for opening, log in parts.all_logs.items():
            await log.start()
            opened[opening] = log
            broker, subscriptions = opening.broker, parts.catalog.subscriptions
            await declare_subscriptions(parts.config, broker, log, subscriptions)
        for name, each in (("operator events", parts.operator_events), ("attempts", parts.keeper)):
            if each is not None:
                await each.start()
                self._closing.push_async_callback(bounded, name, each.stop, LAST_WORDS, LAST_WORDS)
        await self._open_spools(drain)
        await self._admin.start()
        self._closing.push_async_callback(self._admin.stop, _LAST_ANSWERS)
        if parts.supervisor is not None:
            await parts.supervisor.start()
        if parts.watcher is not None:
            await parts.watcher.start()
            self._closing.push_async_callback(parts.watcher.stop)
        await self._following.start()
        self._closing.push_async_callback(self._following.stop)
        for name, log in parts.logs.items():
            await self._open_kafka_listener(name, log, drain)
        if parts.events is not None:
            await parts.events.start()
            self.events_url = parts.events.url

    async def _open_spools(self, drain: float) -> None:
        """What the last run left behind drains first. A route that has lost its setting meanwhile still goes
        behind what waits of it: the router is told of those once the logs are open."""
        spools = self.parts.spools
        if spools is None:
            return
        await spools.start()
        self._closing.push_async_callback(bounded, "spools", spools.stop, drain, drain)
        events = self.parts.events
        if events is not None and spools.routes != routes_with_spools(self.parts.config):
            renewed = self._renewal.events(self.parts.config, self.parts.producers)
            if renewed is not None:
                events.become(renewed)

    async def _open_kafka_listener(self, name: str, log: PortableLog, drain: float) -> None:
        """Once its subscriptions have their groups: else a client could set the positions of one that is
        about to begin. Kafka's protocol is imported for those who want it: half a second of a start."""
        parts = self.parts
        broker = parts.config.brokers.get(name)  # a relaxed log has none of its own
        if not isinstance(broker, EmbeddedBroker) or broker.kafka_listener is None:
            return
        from app.runtime.kafka_listeners import open_kafka_listener  # noqa: PLC0415

        await self._until_taken(name)
        listener = await open_kafka_listener(
            parts.config, name, log, parts.clock, parts.counters, parts.producers
        )
        self.state.listeners[name] = listener
        self._closing.push_async_callback(
            bounded, f"Kafka listener of {name}", listener.stop, drain, drain
        )

    async def _until_taken(self, log: str) -> None:
        if self.parts.supervisor is None:
            return
        try:
            async with asyncio.timeout(TAKEN):
                await self.parts.supervisor.taken(log)
        except TimeoutError:
            _log.warning(
                "log %s: the Kafka listener opens, although not all subscriptions "
                "have started in %g s",
                log,
                TAKEN,
            )

    async def stop(self) -> None:
        """Ends within the bounds of ``timeouts.not_ready`` and ``timeouts.drain``."""
        parts, timeouts = self.parts, self.parts.config.timeouts
        self.state.draining = True
        for task in self._rereading:
            task.cancel()
        await asyncio.gather(*self._rereading, return_exceptions=True)
        if timeouts.not_ready:
            _log.info(
                "stopping: not ready, still accepting for %g s; a second signal "
                "ends the process at once",
                timeouts.not_ready,
            )
        await parts.clock.sleep(timeouts.not_ready)
        _log.info("draining, for at most %g s", timeouts.drain)
        leaving = []
        if parts.events is not None:
            leaving.append(bounded("events", parts.events.stop, timeouts.drain, timeouts.drain))
        if parts.supervisor is not None:
            end = parts.supervisor.stop
            leaving.append(bounded("subscriptions", end, timeouts.drain, timeouts.drain))
        await self._following.stop()
        await asyncio.gather(*leaving)
        self._streams_end.set()
        await self._recording
        await self._closing.aclose()

    def _tell_of_console(self) -> None:
        missing = self.console.missing
        if self.console.shown and missing:
            _log.info("no page at /console/: %s", missing)

    def _admin_server(self, listener: Listener) -> HttpServer:
        admin = self.parts.config.server.admin
        demand_token(admin.host, access_of(self.parts.config))
        return HttpServer(
            self.console,
            host=admin.host,
            port=admin.port,
            listener=listener,
            tls=tls_of(admin.tls),
            settings="server.admin.{}",
        )


async def _close_logs(logs: Mapping[LogName, PortableLog], seconds: float) -> None:
    """Together: however many brokers are away, they take the time of one."""
    await asyncio.gather(
        *(bounded(f"broker {name.broker}", log.stop, seconds) for name, log in logs.items())
    )


async def bounded(
    what: str, step: Callable[..., Awaitable[None]], seconds: float, *args: float
) -> None:
    """One part's way out must not keep the others from theirs."""
    try:
        async with asyncio.timeout(seconds + RELEASE):
            await step(*args)
    except TimeoutError:
        _log.error("%s did not stop within %g s", what, seconds + RELEASE)
    except Exception:  # noqa: BLE001 - said, and the others go on
        _log.exception("%s did not stop cleanly", what)
