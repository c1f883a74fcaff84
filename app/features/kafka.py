"""The Kafka listeners of a service as one component. Kafka's protocol is imported only if a listener is
configured, because the import takes half a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from app.api.status.answers import KafkaListenerView
from app.api.status.families import Family, kafka_listener_families
from app.brokers.portable import PortableLog
from app.config.model.brokers import EmbeddedBroker
from app.config.model.config import Config
from app.features.component import Component, ConfigChange, stop_if_start_fails, stop_part
from app.features.events.producers import ProducersComponent
from app.features.subscriptions.component import SubscriptionsComponent
from app.interfaces import Clock
from app.telemetry import Counters

if TYPE_CHECKING:
    from app.features.kafka_listeners import OpenListener
    from app.kafka_listener.sasl import SaslUsers

_log = logging.getLogger(__name__)

GROUPS_WITHIN = (
    10.0  # seconds for subscriptions to join their groups, before Kafka clients are accepted
)


class KafkaComponent(Component["Mapping[str, SaslUsers | None]"]):
    """A Kafka listener for each embedded log that has one configured.

    A listener opens after the subscriptions of its log have joined their groups. If it opened earlier, a
    client could change the positions of a group whose subscription is about to start.
    """

    name = "Kafka listeners"

    def __init__(
        self,
        config: Config,
        clock: Clock,
        counters: Counters,
        logs: Mapping[str, PortableLog],
        producers: ProducersComponent,
        subscriptions: SubscriptionsComponent,
    ) -> None:
        self._config = config
        self._clock = clock
        self._counters = counters
        self._logs = logs
        self._producers = producers
        self._subscriptions = subscriptions
        self._open: dict[str, OpenListener] = {}

    async def start(self) -> None:
        async with stop_if_start_fails(self):
            for name in listening_brokers(self._config):
                await self._wait_for_groups(name)
                await self._open_one(name)

    async def stop(self, drain: float) -> None:
        steps = [
            stop_part(f"Kafka listener of {name}", each.stop(drain), drain)
            for name, each in self._open.items()
        ]
        await asyncio.gather(*steps)

    async def prepare(self, change: ConfigChange) -> Mapping[str, SaslUsers | None]:
        """Return the logins that each open listener shall require. Raise SetupError if other machines could
        use a listener without a login."""
        if not self._open:
            return {}
        from app.features.kafka_listeners import logins_of  # noqa: PLC0415 - see the top

        producers = change.of(self._producers)
        return {name: await logins_of(change.config, name, producers) for name in self._open}

    def apply(self, prepared: Mapping[str, SaslUsers | None]) -> None:
        for name, logins in prepared.items():
            self._open[name].require_logins(logins)

    async def metrics(self) -> Sequence[Family]:
        return list(kafka_listener_families(self.views()))

    def views(self) -> Sequence[KafkaListenerView]:
        """Return the state of each open listener."""
        return [each.view(name) for name, each in self._open.items()]

    async def _wait_for_groups(self, name: str) -> None:
        """Wait until the subscriptions of a log have joined their groups, for at most 10 s."""
        try:
            async with asyncio.timeout(GROUPS_WITHIN):
                await self._subscriptions.groups_joined(name)
        except TimeoutError:
            _log.warning(
                "log %s: the Kafka listener opens although not all subscriptions have started within %g s",
                name,
                GROUPS_WITHIN,
            )

    async def _open_one(self, name: str) -> None:
        from app.features.kafka_listeners import open_kafka_listener  # noqa: PLC0415 - see the top

        self._open[name] = await open_kafka_listener(
            self._config, name, self._logs[name], self._clock, self._counters, self._producers.now
        )


def listening_brokers(config: Config) -> Sequence[str]:
    """Return the names of the embedded brokers that have a Kafka listener configured."""
    return [
        name
        for name, broker in config.brokers.items()
        if isinstance(broker, EmbeddedBroker) and broker.kafka_listener is not None
    ]
