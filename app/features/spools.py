"""The spools of a service: for each route with one the switch before its target, and the mirror that drains it.

The mirror is a subscription like any other, on the topic of the spool, with a supervisor of its own: its events
never park, so its commit position says how much of the spool is drained. A spool is found again at the start
by its topic, also when its route or setting has gone; it is kept until it is empty.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from app.api.status.answers import SpoolView
from app.api.status.families import Family, spool_families
from app.brokers.embedded import EmbeddedDriver
from app.brokers.embedded.backlog import Backlog
from app.brokers.portable import PortableLog
from app.brokers.spool import STALL, SpoolingLog, When
from app.config.model.config import Config
from app.errors import SetupError, SkybridgeError
from app.features.component import Change, Component, undone
from app.interfaces import Clock, Log, Notify, Store
from app.interfaces.notify import SPOOLED, SPOOLING
from app.model.log_name import LogName
from app.model.route import Target, log_of
from app.model.spool import group_name, spool_subscription, spool_topic, spooled_route
from app.model.subscription import Retry, Source, Subscription
from app.sinks.topic import SpoolSink
from app.telemetry import Counters
from app.telemetry.tasks import keep
from app.worker.supervisor import Supervisor

CONCURRENCY = 256  # records on their way from a spool to its target
SCHEDULE = (0.1, 0.5, 2.0) + (
    10.0,
) * 120_000  # waits for a record that the target refuses: about a week
ANSWER = 5.0  # seconds beyond the publish time-out
LOOK = 1.0  # seconds between looks whether a spool is empty
TRY_STORE = 5  # looks between questions to the store for redriven dead letters

_log = logging.getLogger("skybridge.spool")


class Wanted(NamedTuple):
    """What the configuration says of one spool. ``target``: the log that it spares."""

    route: str
    broker: str
    target: LogName
    kind: str
    when: When
    most: int


@dataclass(eq=False)
class _Spool:
    """One that is open."""

    wanted: Wanted
    log: SpoolingLog
    waits: Backlog


class SpoolsComponent(Component[Config]):
    """``logs``: of brokers, by name. ``publishing``: the logs that routes publish through. The spools add theirs, and
    take them away as the configuration changes."""

    name = "spools"

    def __init__(
        self,
        config: Config,
        logs: Mapping[str, PortableLog],
        publishing: dict[LogName, Log],
        store: Store,
        clock: Clock,
        counters: Counters,
        notify: Notify,
        *,
        alone: bool = True,
    ) -> None:
        """``alone``: no other process with spools shares the store."""
        self._config = config
        self._logs = logs
        self._store = store
        self._clock = clock
        self._counters = counters
        self._notify = notify
        self._alone = alone
        self._open: dict[str, _Spool] = {}  # by route
        self._some = asyncio.Event()  # are open: most services have none, and nothing to look at
        self._drains: dict[str, Supervisor] = {}  # of those that have begun
        self._watches: list[asyncio.Task[None]] = []
        self._expected: frozenset[str] = frozenset()  # routes of the configuration that is coming
        self._closing = asyncio.Lock()
        self.publishing = publishing
        for wanted in _wanted(config):
            self._make(wanted)

    @property
    def routes(self) -> frozenset[str]:
        """Those that publish by way of a spool."""
        return frozenset(self._open)

    async def start(self) -> None:
        """Once the logs have started. What the last run left behind begins to drain."""
        async with undone(self):
            await self._open_all(self._config)
        self.apply(self._config)
        self._watches = [keep("spools", self._look_on), keep("spools", self._look_after, "targets")]

    async def prepare(self, change: Change) -> Config:
        """Open the spools of another configuration. None of those open now is changed, and none is closed until
        ``apply``, or the next ``prepare``, has another one."""
        await self._open_all(change.config)
        return change.config

    def discard(self) -> None:
        self.apply(self._config)

    async def _open_all(self, config: Config) -> None:
        self._expected = frozenset(each.name for each in config.routes)
        async with self._closing:
            await self._prepare(config)

    async def _prepare(self, config: Config) -> None:
        for wanted in _wanted(config):
            now = self._open.get(wanted.route)
            if now is not None and now.wanted[:4] != wanted[:4]:
                raise SetupError(
                    "its target or its broker is another one: what waits is bound to the old one",
                    setting=f"routes.{wanted.route}.spool",
                    cure="restart the service, or give the route another name",
                )
            await self._begin(now or self._make(wanted))
        for broker, route in self._left_behind():
            if route not in self._open:
                target = _target_of(config, route)
                kind = config.brokers[target.broker].kind if target else "embedded"
                left = Wanted(route, broker, target or LogName(broker), kind, "never", 0)
                await self._begin(self._make(left))

    def apply(self, prepared: Config) -> None:
        """Those that are not wanted any more take nothing new of their own accord, and drain."""
        self._config, self._expected = prepared, frozenset()
        wanted = {each.route: each for each in _wanted(prepared)}
        for route, spool in self._open.items():
            now = wanted.get(route)
            spool.log.set(now.when if now else "never", now.most if now else spool.wanted.most)
            if now is None and spool.log.spooling:
                _log.warning(
                    "route %s: its spool is removed, and %d records wait in it: they are still"
                    " delivered",
                    route,
                    spool.waits.records,
                )
            spool.wanted = now or spool.wanted._replace(when="never")

    async def stop(self, drain: float) -> None:
        """What waits is kept, and drained by the next start."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        for spool in self._open.values():
            await spool.log.stop()
        await asyncio.gather(*(each.stop(drain) for each in self._drains.values()))

    async def metrics(self) -> Sequence[Family]:
        return list(spool_families(await self.states()))

    async def states(self) -> list[SpoolView]:
        return [await self._state(spool) for _, spool in sorted(self._open.items())]

    def _make(self, wanted: Wanted) -> _Spool:
        topic, name = spool_topic(wanted.route), wanted.target._replace(spooled=wanted.route)
        spool, group = self._logs[wanted.broker], self._group(wanted.route)
        driver = spool.driver
        assert isinstance(driver, EmbeddedDriver)  # noqa: S101 - lint has seen to it
        waits = Backlog(driver, topic, group)
        log = SpoolingLog(
            wanted.target.broker,
            self.publishing[wanted.target],
            spool,
            topic,
            waits,
            when=wanted.when,
            most=wanted.most,
            began=lambda cause: self._began(wanted.route, cause),
        )
        made = self._open[wanted.route] = _Spool(wanted, log, waits)
        self._some.set()
        self.publishing[name] = log
        return made

    async def _begin(self, spool: _Spool) -> None:
        route, driver = spool.wanted.route, self._logs[spool.wanted.broker].driver
        if route in self._drains:
            return
        assert isinstance(driver, EmbeddedDriver)  # noqa: S101 - as above
        await driver.create_topic(spool_topic(route), driver.engine.settings.partitions)
        drain = self._drains[route] = self._drain(spool, driver.engine.cluster)
        await drain.start()
        records = spool.waits.records
        spool.log.spooling = records > 0
        if records:
            _log.warning("route %s: %d records wait in its spool", route, records)

    def _drain(self, spool: _Spool, cluster: str) -> Supervisor:
        """``cluster``: the identity of the log. In a store that gateways share it keeps the rows of their spools
        apart: the records of two have the same topic, partition and position."""
        wanted = spool.wanted
        drain = self._subscription(wanted)
        if not self._alone:
            drain = drain.model_copy(update={"id": spool_subscription(wanted.route, cluster)})
        return Supervisor(
            [drain],
            self._logs,
            self._store,
            lambda _: SpoolSink(self._logs, spool.log.drained),
            self._clock,
            self._counters,
            installation=self._config.installation,
            kinds={wanted.broker: wanted.kind},  # in which records of the spool are written
            notify=self._notify,
        )

    def _subscription(self, wanted: Wanted) -> Subscription:
        """Its waits hold their key and never park it: the commit position must say what is drained."""
        drain = Subscription(
            id="spool",
            source=Source(broker=wanted.broker, topics=(spool_topic(wanted.route),)),
            start="earliest",
            sink=Target(broker=wanted.target.broker, topic=wanted.route),
            content_mode="as_received",
            on_foreign="forward",
            concurrency=CONCURRENCY,
            timeout=self._config.timeouts.publish + ANSWER,
        )
        retry = Retry().model_copy(update={"schedule": SCHEDULE, "hold": len(SCHEDULE)})
        return drain.model_copy(update={"id": spool_subscription(wanted.route), "retry": retry})

    def _began(self, route: str, cause: str) -> None:
        _log.warning("route %s: its events wait in the spool: %s", route, cause)
        self._notify(SPOOLING, route, {"cause": cause})

    async def _look_on(self) -> None:
        looks = 0
        while True:
            await self._some.wait()
            await self._clock.sleep(LOOK)
            looks += 1
            for route, spool in list(self._open.items()):
                if spool.log.ended() and spool.wanted.when != "always":
                    _log.info("route %s: its spool is empty", route)
                    self._notify(SPOOLED, route, {"repeats": spool.log.repeats})
                if looks % TRY_STORE == 0:
                    await self._tell_of_store(route)
                if spool.wanted.when == "never" and not self._routed(route) and spool.log.idle:
                    async with self._closing:
                        await self._close(route)

    async def _look_after(self) -> None:
        while True:
            await self._some.wait()
            await self._clock.sleep(STALL)
            await asyncio.gather(*(spool.log.look_after_target() for spool in self._open.values()))

    async def _tell_of_store(self, route: str) -> None:
        try:
            await self._drains[route].look()
        except SkybridgeError as error:
            _log.debug("route %s: the store cannot be asked: %s", route, error)

    def _routed(self, route: str) -> bool:
        """A route that has lost its setting keeps its switch: the router knows it by that name."""
        return route in self._expected or any(each.name == route for each in self._config.routes)

    async def _close(self, route: str) -> None:
        """Unless a reload has begun meanwhile that has the route."""
        if self._routed(route):
            return
        spool = self._open.pop(route)
        if not self._open:
            self._some.clear()
        drain = self._drains.pop(route)
        self.publishing.pop(spool.wanted.target._replace(spooled=route), None)
        await drain.stop(ANSWER)
        driver = self._logs[spool.wanted.broker].driver
        assert isinstance(driver, EmbeddedDriver)  # noqa: S101 - it was opened as one
        if not spool.waits.records:
            await driver.forget(self._group(route))
            await driver.engine.delete_topic(spool_topic(route))
            _log.info("route %s: its spool was removed, and is empty: it is deleted", route)

    async def _state(self, spool: _Spool) -> SpoolView:
        records, wanted = spool.waits.records, spool.wanted
        oldest = await spool.waits.oldest_ms() if records else None
        return SpoolView(
            route=wanted.route,
            broker=wanted.broker,
            state=_word(spool, records),
            cause=spool.log.cause if records else "",
            records=records,
            bytes=spool.waits.bytes,
            most=wanted.most,
            oldest_seconds=0.0 if oldest is None else max(0.0, self._clock.now() - oldest / 1000),
            repeats=spool.log.repeats,
            drained=list(spool.waits.finished()),
        )

    def _left_behind(self) -> Iterator[tuple[str, str]]:
        """Broker and route of every spool with records in it."""
        for name, log in self._logs.items():
            if not isinstance(log.driver, EmbeddedDriver):
                continue
            for topic in list(log.driver.engine.topics()):
                route = spooled_route(topic)
                if route and Backlog(log.driver, topic, self._group(route)).records:
                    yield name, route

    def _group(self, route: str) -> str:
        return group_name(self._config.installation, spool_subscription(route))


def _word(spool: _Spool, records: int) -> Literal["empty", "spooling", "draining", "removed"]:
    if spool.wanted.when == "never":
        return "removed"
    if not records:
        return "empty"
    return "spooling" if spool.log.away else "draining"


def _wanted(config: Config) -> Sequence[Wanted]:
    return [
        Wanted(
            route.name,
            route.spool.broker,
            log_of(route, route.to[0]),
            config.brokers[route.to[0].broker].kind,
            route.spool.when,
            route.spool.max,
        )
        for route in config.routes
        if route.spool is not None
    ]


def _target_of(config: Config, route: str) -> LogName | None:
    """Return the log that a route publishes to without its spool; None for a route that is gone, or goes to several."""
    found = next((each for each in config.routes if each.name == route), None)
    return log_of(found, found.to[0]) if found is not None and len(found.to) == 1 else None
