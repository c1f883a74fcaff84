"""From a configuration to what explains an event's way by it."""

from __future__ import annotations

from app.config.key_mappers import load_key_mappers
from app.config.kinds import kinds_of, manners_of
from app.config.model import Config
from app.routing.journey import Guide


def guide_of(config: Config) -> Guide:
    """By its routes and subscriptions alone; those made by the API are in the store."""
    return Guide(
        config.routes,
        config.subscriptions,
        load_key_mappers(config.routes),
        kinds_of(config),
        manners_of(config),
    )
