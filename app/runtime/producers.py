"""From the settings of producers to the door of the events listener."""

from __future__ import annotations

from app.access.who import Producers
from app.config.model.config import Config
from app.errors import SetupError
from app.gateway.door import Door
from app.gateway.issuers import Issuers
from app.gateway.port import is_loopback
from app.interfaces import Clock


def door_of(config: Config, producers: Producers, issuers: Issuers, clock: Clock) -> Door | None:
    """None where everybody may send and nobody is counted. Raises SetupError."""
    events = config.server.events
    demand_access(config)
    is_open = events.access != "producers"
    if is_open and not producers.posts and events.address_quota is None:
        return None
    return Door(
        producers,
        issuers.of,
        clock,
        is_open=is_open,
        address_quota=events.address_quota if is_open else None,
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
