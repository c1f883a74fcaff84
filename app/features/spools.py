"""The spools of a service. Each route with a spool has a switch between the target and the spool, and a
mirror that drains the spool.

The mirror is an internal subscription on the topic of the spool, with a supervisor of its own. The events of
the mirror never park, so its committed position shows how much of the spool is drained. At start, a spool is
found by its topic, even if the route or the setting was removed from the configuration. Such a spool is
deleted when it is empty.
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
from app.features.component import Component, ConfigChange, stop_if_start_fails
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

CONCURRENCY = 256  # records in flight from a spool to its target
# Seconds between attempts at a record that the target refuses; together about two weeks.
SCHEDULE = (0.1, 0.5, 2.0) + (10.0,) * 120_000
ANSWER = 5.0  # seconds in addition to the publish timeout
LOOK = 1.0  # seconds between checks whether a spool is empty
TRY_STORE = 5  # checks between reads of the store for redriven dead letters

_log = logging.getLogger("skybridge.spool")


class SpoolSettings(NamedTuple):
    """The settings of one spool. ``target`` is the log in whose place the spool is used while the target is
    unavailable."""

    route: str
    broker: str
    target: LogName
    kind: str
    when: When
    most: int


@dataclass(eq=False)
class _Spool:
    """An open spool: its settings, its backlog, and the switch between the target and the spool."""

    wanted: SpoolSettings
    log: SpoolingLog
    waits: Backlog


class SpoolsComponent(Component[Config]):
    """The component with the spools of the configuration. ``publishing`` has the logs through which routes
    publish. When the configuration changes, the component adds and removes the logs of its spools there."""

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
        """Create the spools of the configuration. ``alone`` is True if no other process with spools shares
        the store."""
        self._config = config
        self._logs = logs
        self._store = store
        self._clock = clock
        self._counters = counters
        self._notify = notify
        self._alone = alone
        self._open: dict[str, _Spool] = {}  # by route
        self._some = asyncio.Event()  # set while a spool is open, so that services without one idle
        self._drains: dict[str, Supervisor] = {}  # running mirrors, by route
        self._watches: list[asyncio.Task[None]] = []
        self._expected: frozenset[str] = (
            frozenset()
        )  # routes of a configuration that is being prepared
        self._closing = asyncio.Lock()
        self.publishing = publishing
        for wanted in _spool_settings(config):
            self._create(wanted)

    @property
    def routes(self) -> frozenset[str]:
        """Return the names of the routes that publish through a spool."""
        return frozenset(self._open)

    async def start(self) -> None:
        """Open the spools, after the logs have started, and drain the records of the last run."""
        async with stop_if_start_fails(self):
            await self._open_all(self._config)
        self.apply(self._config)
        self._watches = [
            keep("spools", self._watch_spools),
            keep("spools", self._watch_targets, "targets"),
        ]

    async def prepare(self, change: ConfigChange) -> Config:
        """Open the spools of another configuration. Open spools are neither changed nor closed until
        ``apply``."""
        await self._open_all(change.config)
        return change.config

    def discard(self) -> None:
        self.apply(self._config)

    async def _open_all(self, config: Config) -> None:
        """Open the spools of a configuration. Open also spools that have records but are no longer
        configured."""
        self._expected = frozenset(each.name for each in config.routes)
        async with self._closing:
            await self._prepare(config)

    async def _prepare(self, config: Config) -> None:
        """Open the spools of a configuration. Raise SetupError if an open spool would get another target or
        broker."""
        for wanted in _spool_settings(config):
            now = self._open.get(wanted.route)
            if now is not None and now.wanted[:4] != wanted[:4]:
                raise SetupError(
                    "the target or the broker of the spool changed, but waiting events are for the old target",
                    setting=f"routes.{wanted.route}.spool",
                    cure="restart the service, or give the route another name",
                )
            await self._start_mirror(now or self._create(wanted))
        for broker, route in self._spools_with_records():
            if route not in self._open:
                target = _target_of(config, route)
                kind = config.brokers[target.broker].kind if target else "embedded"
                removed = SpoolSettings(route, broker, target or LogName(broker), kind, "never", 0)
                await self._start_mirror(self._create(removed))

    def apply(self, prepared: Config) -> None:
        """Apply the settings of each spool. A spool that is no longer configured is drained. While it still
        has records, it also takes new events of its route, so that they stay in order."""
        self._config, self._expected = prepared, frozenset()
        wanted = {each.route: each for each in _spool_settings(prepared)}
        for route, spool in self._open.items():
            now = wanted.get(route)
            spool.log.set(now.when if now else "never", now.most if now else spool.wanted.most)
            if now is None and spool.log.spooling:
                _log.warning(
                    "route %s: its spool is no longer configured. Its %d waiting records are still delivered",
                    route,
                    spool.waits.records,
                )
            spool.wanted = now or spool.wanted._replace(when="never")

    async def stop(self, drain: float) -> None:
        """Stop the spools. Waiting records are stored, and the next start drains them."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        for spool in self._open.values():
            await spool.log.stop()
        await asyncio.gather(*(each.stop(drain) for each in self._drains.values()))

    async def metrics(self) -> Sequence[Family]:
        return list(spool_families(await self.states()))

    async def states(self) -> list[SpoolView]:
        """Return the state of each spool."""
        return [await self._state(spool) for _, spool in sorted(self._open.items())]

    def _create(self, wanted: SpoolSettings) -> _Spool:
        """Create the switch and the backlog of a spool."""
        topic, name = spool_topic(wanted.route), wanted.target._replace(spooled=wanted.route)
        spool, group = self._logs[wanted.broker], self._group(wanted.route)
        driver = spool.driver
        assert isinstance(driver, EmbeddedDriver)  # noqa: S101 - the check of the configuration demands it
        waits = Backlog(driver, topic, group)
        log = SpoolingLog(
            wanted.target.broker,
            self.publishing[wanted.target],
            spool,
            topic,
            waits,
            when=wanted.when,
            most=wanted.most,
            began=lambda cause: self._report_spooling(wanted.route, cause),
        )
        made = self._open[wanted.route] = _Spool(wanted, log, waits)
        self._some.set()
        self.publishing[name] = log
        return made

    async def _start_mirror(self, spool: _Spool) -> None:
        """Start the mirror of a spool, unless it runs already."""
        route, driver = spool.wanted.route, self._logs[spool.wanted.broker].driver
        if route in self._drains:
            return
        assert isinstance(driver, EmbeddedDriver)  # noqa: S101 - as in _create
        await driver.create_topic(spool_topic(route), driver.engine.settings.partitions)
        drain = self._drains[route] = self._mirror(spool, driver.engine.cluster)
        await drain.start()
        records = spool.waits.records
        spool.log.spooling = records > 0
        if records:
            _log.warning("route %s: its spool has %d waiting records", route, records)

    def _mirror(self, spool: _Spool, cluster: str) -> Supervisor:
        """Return the mirror that drains a spool.

        ``cluster`` is the identity of the log. Several gateways may share a store, and their spools have
        records with the same topic, partition and position. The identity distinguishes their rows.
        """
        wanted = spool.wanted
        drain = self._mirror_subscription(wanted)
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
            kinds={wanted.broker: wanted.kind},  # the format in which its records are written
            notify=self._notify,
        )

    def _mirror_subscription(self, wanted: SpoolSettings) -> Subscription:
        """Return the subscription of the mirror. While an event is retried, later events of its key wait in
        memory and never park. So the committed position shows what is drained."""
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

    def _report_spooling(self, route: str, cause: str) -> None:
        """Report that the events of a route go to its spool from now on."""
        _log.warning("route %s: its events wait in the spool: %s", route, cause)
        self._notify(SPOOLING, route, {"cause": cause})

    async def _watch_spools(self) -> None:
        """Check the spools every second. Report spools that have become empty, and close those that are no
        longer configured."""
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
                    await self._read_store(route)
                if spool.wanted.when == "never" and not self._has_route(route) and spool.log.idle:
                    async with self._closing:
                        await self._close(route)

    async def _watch_targets(self) -> None:
        """Check every few seconds whether the targets have recovered."""
        while True:
            await self._some.wait()
            await self._clock.sleep(STALL)
            await asyncio.gather(*(spool.log.look_after_target() for spool in self._open.values()))

    async def _read_store(self, route: str) -> None:
        """Make the mirror of a route read the store now, because dead letters of the spool may have been
        redriven."""
        try:
            await self._drains[route].look()
        except SkybridgeError as error:
            _log.debug("route %s: the store does not answer: %s", route, error)

    def _has_route(self, route: str) -> bool:
        """Return True if the current or the next configuration has the route. The log of such a route is kept
        even without a spool, because the router refers to it."""
        return route in self._expected or any(each.name == route for each in self._config.routes)

    async def _close(self, route: str) -> None:
        """Close a spool, and delete its topic if the topic is empty. Do nothing if a reload has added the
        route again in the meantime."""
        if self._has_route(route):
            return
        spool = self._open.pop(route)
        if not self._open:
            self._some.clear()
        drain = self._drains.pop(route)
        self.publishing.pop(spool.wanted.target._replace(spooled=route), None)
        await drain.stop(ANSWER)
        driver = self._logs[spool.wanted.broker].driver
        assert isinstance(driver, EmbeddedDriver)  # noqa: S101 - as in _create
        if not spool.waits.records:
            await driver.forget(self._group(route))
            await driver.engine.delete_topic(spool_topic(route))
            _log.info(
                "route %s: its spool is no longer configured and empty, so it was deleted", route
            )

    async def _state(self, spool: _Spool) -> SpoolView:
        """Return the state of a spool."""
        records, wanted = spool.waits.records, spool.wanted
        oldest = await spool.waits.oldest_ms() if records else None
        return SpoolView(
            route=wanted.route,
            broker=wanted.broker,
            state=_state_of(spool, records),
            cause=spool.log.cause if records else "",
            records=records,
            bytes=spool.waits.bytes,
            most=wanted.most,
            oldest_seconds=0.0 if oldest is None else max(0.0, self._clock.now() - oldest / 1000),
            repeats=spool.log.repeats,
            drained=list(spool.waits.finished()),
        )

    def _spools_with_records(self) -> Iterator[tuple[str, str]]:
        """Yield broker and route of every spool that has records."""
        for name, log in self._logs.items():
            if not isinstance(log.driver, EmbeddedDriver):
                continue
            for topic in list(log.driver.engine.topics()):
                route = spooled_route(topic)
                if route and Backlog(log.driver, topic, self._group(route)).records:
                    yield name, route

    def _group(self, route: str) -> str:
        """Return the group of the mirror of a route."""
        return group_name(self._config.installation, spool_subscription(route))


def _state_of(spool: _Spool, records: int) -> Literal["empty", "spooling", "draining", "removed"]:
    """Return the state of a spool as one word."""
    if spool.wanted.when == "never":
        return "removed"
    if not records:
        return "empty"
    return "spooling" if spool.log.away else "draining"


def _spool_settings(config: Config) -> Sequence[SpoolSettings]:
    """Return the settings of all spools of a configuration."""
    return [
        SpoolSettings(
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
    """Return the log to which a route publishes without its spool. Return None if the route does not exist or
    has several targets."""
    found = next((each for each in config.routes if each.name == route), None)
    return log_of(found, found.to[0]) if found is not None and len(found.to) == 1 else None
