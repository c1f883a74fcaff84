"""The logs of all brokers of a configuration, as one component."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from app.api.status.families import Family, broker_families
from app.brokers.portable import PortableLog
from app.brokers.sharing import SingleFlight
from app.config.derived.kinds import attested_brokers, kinds_of, manners_of
from app.config.model.config import Config
from app.errors import BrokerRefused, SkybridgeError
from app.features.brokers.logs import (
    bound_logs,
    declare_subscriptions,
    forget_group,
    open_logs,
    with_relaxed_logs,
)
from app.features.brokers.targets import Faults, TargetCheck
from app.features.component import Component, ConfigChange, stop_if_start_fails, stop_part
from app.interfaces import Clock, Log, Store
from app.model.log_name import LogName
from app.model.metadata import GroupLag, Lags, ReadTopics
from app.model.metadata import LogHealth as BrokerHealth
from app.model.subscription import Subscription
from app.telemetry import Counters

HEALTH_KEPT = 1.0  # seconds that a health is cached, as anyone may request readiness


class BrokersComponent(Component[Config]):
    """The component with the logs of all brokers. A route that asks for weaker acknowledgements has one more
    log.

    Attributes:
        logs: The log of each broker, by name.
        every: All of ``logs``, and the logs of routes with relaxed durability.
        publishing: The logs through which routes publish: ``every``, and the logs of spools, which the spools
            add.
        kinds: The protocol of each broker.
        manners: How events are written to each broker whose protocol permits several ways.
        attested: Names of the brokers whose records prove which producer sent them.
    """

    name = "brokers"

    def __init__(
        self,
        config: Config,
        subscriptions: Callable[[], Sequence[Subscription]],
        clock: Clock,
        counters: Counters,
        store: Store | None = None,
        *,
        logs: Mapping[str, PortableLog] | None = None,
    ) -> None:
        """Create the logs without opening them.

        ``subscriptions`` is a function that returns all subscriptions that exist now. Tests pass ``logs`` in
        place of the logs of the configuration.
        """
        self._config = config
        self._subscriptions = subscriptions
        self.logs = open_logs(config, store, counters) if logs is None else logs
        self.every = with_relaxed_logs(config, self.logs, counters)
        self.publishing: dict[LogName, Log] = {**self.every}
        self.kinds = kinds_of(config)
        self.manners = manners_of(config)
        self.attested = attested_brokers(config)
        self._opened: list[tuple[LogName, PortableLog]] = []
        self._targets = TargetCheck(self._config_with_all_subscriptions, self.logs, clock)
        self._asking = SingleFlight(HEALTH_KEPT, clock.monotonic)

    async def start(self) -> None:
        """Start all logs. If a broker is unavailable, the start succeeds anyway: ``health`` reports the
        broker, and its log reconnects by itself."""
        async with stop_if_start_fails(self):
            for name, log in self.every.items():
                await log.start()
                self._opened.append((name, log))
                await self._declare(name.broker, self._subscriptions())

    async def stop(self, drain: float) -> None:
        """Stop all logs at the same time. So several unavailable brokers do not take longer than one."""
        steps = (
            stop_part(f"broker {name.broker}", log.stop(), drain) for name, log in self._opened
        )
        await asyncio.gather(*steps)

    async def prepare(self, change: ConfigChange) -> Config:
        return change.config

    def apply(self, prepared: Config) -> None:
        self._config = prepared
        self.attested = attested_brokers(prepared)
        bound_logs(prepared, self.every)

    async def declare(self, subscriptions: Sequence[Subscription]) -> None:
        """Declare the current subscriptions to the embedded logs. Retention then keeps the records that these
        subscriptions have not read."""
        for name in self.logs:
            await self._declare(name, subscriptions)

    async def forget(self, subscription: Subscription) -> None:
        """Delete the committed position of a deleted subscription. So a new subscription with the same id
        starts without a position."""
        await forget_group(self._config, self.logs, subscription)

    async def healths(self) -> Mapping[LogName, BrokerHealth]:
        """Return the health of every log."""
        return await self._asking.ask("logs", self._ask_healths)

    async def faults(self) -> Faults:
        """Return the reason why nothing can be published to a topic or exchange, by broker and name. Brokers
        that do not answer are missing."""
        healths = await self.healths()
        names = [name for name in self.logs if healths[LogName(name)].healthy]
        found = await asyncio.gather(
            *map(self._targets.faults, names)
        )  # concurrently, because a probe does not wait long
        return dict(zip(names, found, strict=True))

    async def lag(self, read: Mapping[str, ReadTopics]) -> Lags:
        """Return the lag of groups. ``read`` has the topics that each group reads, by broker and group."""
        found: list[GroupLag] = []
        silent: list[str] = []
        for name, log in self.logs.items():
            if not (groups := read.get(name)):
                continue
            try:
                if (await log.health()).healthy:
                    found += await _lags_of(log, groups)
                else:
                    silent += groups
            except SkybridgeError:  # the broker has just failed, which its health reports
                silent += groups
        return Lags(found, silent)

    async def metrics(self) -> Sequence[Family]:
        healths = await self.healths()
        own = {name: healths[LogName(name)] for name in self.logs}
        return list(broker_families(own))

    async def _ask_healths(self) -> Mapping[LogName, BrokerHealth]:
        found = await asyncio.gather(*(log.health() for log in self.every.values()))
        return dict(zip(self.every, found, strict=True))

    async def _declare(self, name: str, subscriptions: Sequence[Subscription]) -> None:
        await declare_subscriptions(self._config, name, self.logs[name], subscriptions)

    def _config_with_all_subscriptions(self) -> Config:
        """Return the configuration with all current subscriptions, including those that the API created."""
        return self._config.model_copy(update={"subscriptions": self._subscriptions()})


async def _lags_of(log: Log, groups: ReadTopics) -> Sequence[GroupLag]:
    """Return the lags of groups of one broker. If the broker refuses a topic, the groups that read it are left
    out, because they deliver nothing of it."""
    try:
        topics = sorted({topic for read in groups.values() for topic in read})
        return (await log.metadata(topics, groups)).groups
    except BrokerRefused:
        if len(groups) == 1:
            return ()
    return [lag for group, read in groups.items() for lag in await _lags_of(log, {group: read})]
