"""From the settings of producers to the door of the events listener."""

from __future__ import annotations

from collections.abc import Mapping

from app.access.caller import EventSender
from app.access.who import ProducerDirectory
from app.config.model.config import Config
from app.errors import SetupError
from app.features.component import Change, Component
from app.gateway.door import Addresses, Door
from app.gateway.issuers import Issuers
from app.gateway.port import is_loopback
from app.interfaces import Clock


class ProducersComponent(Component[ProducerDirectory]):
    """The producers in force, and what each has sent so far."""

    name = "producers"

    def __init__(self, config: Config, clock: Clock) -> None:
        self.now = ProducerDirectory(config.producers)
        self._clock = clock

    @property
    def callers(self) -> Mapping[str, EventSender]:
        return self.now.callers

    async def prepare(self, change: Change) -> ProducerDirectory:
        return ProducerDirectory(change.config.producers, self.now.callers)

    def apply(self, prepared: ProducerDirectory) -> None:
        self.now = prepared
        prepared.take_effect(self._clock.monotonic())


def door_of(
    config: Config,
    producers: ProducerDirectory,
    issuers: Issuers,
    clock: Clock,
    addresses: Addresses | None,
) -> Door | None:
    """Return what judges who sends; None where everybody may send and nobody is counted. ``addresses``: their quotas,
    where the configuration has any. Raises SetupError."""
    events = config.server.events
    demand_access(config)
    is_open = events.access != "producers"
    if is_open and not producers.posts and events.address_quota is None:
        return None
    return Door(
        producers, issuers.of, clock, is_open=is_open, addresses=addresses if is_open else None
    )


def demand_access(config: Config) -> None:
    """Off loopback the events listener does not start before somebody has said who may send. Raises
    SetupError."""
    events = config.server.events
    if events.access is None and not is_loopback(events.host):
        raise SetupError(
            f"the events listener on {events.host} can be reached from other machines, and it is not "
            "said who may send",
            setting="server.events.access",
            cure="set it to producers and list them under producers, or to open; or listen on 127.0.0.1",
        )
