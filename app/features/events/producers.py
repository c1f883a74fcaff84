"""The producers of a configuration, and the authentication of the events listener."""

from __future__ import annotations

from collections.abc import Mapping

from app.access.caller import EventSender
from app.access.who import ProducerDirectory
from app.config.model.config import Config
from app.errors import SetupError
from app.features.component import Component, ConfigChange
from app.gateway.door import AddressQuotas, Authenticator
from app.gateway.issuers import Issuers
from app.gateway.port import is_loopback
from app.interfaces import Clock


class ProducersComponent(Component[ProducerDirectory]):
    """The component with the producers of the current configuration. Their counts survive a reload."""

    name = "producers"

    def __init__(self, config: Config, clock: Clock) -> None:
        self.now = ProducerDirectory(config.producers, required=is_required(config))
        self._clock = clock

    @property
    def callers(self) -> Mapping[str, EventSender]:
        """Return the producers by name."""
        return self.now.callers

    @property
    def required(self) -> bool:
        """Return True if only producers may send events."""
        return self.now.required

    async def prepare(self, change: ConfigChange) -> ProducerDirectory:
        config = change.config
        return ProducerDirectory(config.producers, self.now.callers, required=is_required(config))

    def apply(self, prepared: ProducerDirectory) -> None:
        self.now = prepared
        prepared.take_effect(self._clock.monotonic())


def is_required(config: Config) -> bool:
    """Return True if only producers may send events."""
    return config.server.events.access == "producers"


def authenticator_of(
    config: Config,
    producers: ProducerDirectory,
    issuers: Issuers,
    clock: Clock,
    addresses: AddressQuotas | None,
) -> Authenticator | None:
    """Return the authenticator of the events listener. Return None if everyone may send and no caller has a
    quota. Raise SetupError if other machines could send although ``access`` is not set.

    ``addresses`` has the quotas of client addresses, or is None without quotas.
    """
    events = config.server.events
    demand_access(config)
    is_open = not is_required(config)
    if is_open and not producers.posts and events.address_quota is None:
        return None
    return Authenticator(
        producers, issuers.of, clock, is_open=is_open, addresses=addresses if is_open else None
    )


def demand_access(config: Config) -> None:
    """Raise SetupError if other machines can reach the events listener but ``server.events.access`` is not
    set."""
    events = config.server.events
    if events.access is None and not is_loopback(events.host):
        raise SetupError(
            f"the events listener on {events.host} is reachable from other machines, but access is not set",
            setting="server.events.access",
            cure="set it to producers and list them under producers, or to open; or listen on 127.0.0.1",
        )
