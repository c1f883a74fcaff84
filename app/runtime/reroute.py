"""From the configuration to what a job of ``pipeline reroute`` is told."""

from __future__ import annotations

from collections.abc import Sequence

from app.config.model import Config
from app.errors import SetupError
from app.pipeline.settings import KafkaPlace, Reroute
from app.runtime.pipeline import kafka_place


def reroute_of(
    config: Config, broker: str, topics: Sequence[str], rejects: str | None = None
) -> Reroute:
    """Raises SetupError where ``broker`` is none that Spark reads. What its routes publish to and Spark does not
    reach is left out: ``plan_of`` says so, with all the rest.
    """
    return Reroute(
        source=kafka_place(config, broker, "--from"),
        topics=tuple(topics),
        routes=config.routes,
        places=_places(config),
        rejects=rejects,
    )


def _places(config: Config) -> dict[str, KafkaPlace]:
    found: dict[str, KafkaPlace] = {}
    for name in dict.fromkeys(target.broker for route in config.routes for target in route.to):
        try:
            found[name] = kafka_place(config, name)
        except SetupError:
            continue
    return found
