"""Check whether the topics and exchanges that a configuration publishes to exist and store events.

Only a topic or exchange that is the same for every event can be checked in advance. If a template computes
the name, the answer to the first event shows whether it exists.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from app.brokers.portable import PortableLog
from app.brokers.sharing import SingleFlight
from app.config.load.finding import Path
from app.config.model.config import Config
from app.errors import SkybridgeError
from app.interfaces import Clock
from app.model.route import Exchange, Target
from app.routing.places import fixed_place, is_fixed

ASK_AGAIN = 3.0  # seconds that the answer of a broker is cached
WITHIN = 2.0  # seconds to wait for a broker, as readiness must answer in any case

Faults = Mapping[str, Mapping[str, str]]
"""The reason why nothing can be published to a topic or exchange, by broker and name."""
NO_FAULTS: Mapping[str, str] = MappingProxyType({})

_log = logging.getLogger(__name__)


class PublishedPlace(NamedTuple):
    """A topic or exchange to which events are published, and the setting that names it. ``text`` is the name
    in the form that the log expects."""

    broker: str
    text: str
    path: Path


def written_places(config: Config) -> Iterator[PublishedPlace]:
    """Yield the topics and exchanges of routes, mirrors, dead letters and operator events. Those whose name a
    template computes are left out."""
    for n, route in enumerate(config.routes):
        for target in route.to:
            if is_fixed(target):
                yield PublishedPlace(target.broker, fixed_place(target), ("routes", n, "to"))
    for n, subscription in enumerate(config.subscriptions):
        sink, letters = subscription.sink, subscription.dead_letter
        if isinstance(sink, Target | Exchange) and is_fixed(sink):
            yield PublishedPlace(sink.broker, fixed_place(sink), ("subscriptions", n, "sink"))
        if letters is not None:
            path = ("subscriptions", n, "dead_letter")
            yield PublishedPlace(letters.broker, letters.topic, path)
    reports = config.operator_events
    if reports is not None:
        yield PublishedPlace(reports.broker, reports.topic, ("operator_events",))


class TargetCheck:
    """A check of the topics and exchanges to which a configuration publishes. Answers are cached for a few
    seconds, because readiness is requested often. ``config`` is a function that returns the current
    configuration with the subscriptions of the API."""

    def __init__(
        self, config: Callable[[], Config], logs: Mapping[str, PortableLog], clock: Clock
    ) -> None:
        self._config = config
        self._logs = logs
        self._faults: dict[str, Mapping[str, str]] = {}
        self._asking = SingleFlight(ASK_AGAIN, clock.monotonic)

    async def faults(self, broker: str) -> Mapping[str, str]:
        """Return the topics and exchanges of a broker to which nothing can be published, each with the
        reason. If the broker does not answer, return the last known faults."""
        return await self._asking.ask(broker, partial(self._ask, broker))

    async def _ask(self, broker: str) -> Mapping[str, str]:
        """Ask the broker about all topics and exchanges to which the configuration publishes."""
        written = (each.text for each in written_places(self._config()) if each.broker == broker)
        places = list(dict.fromkeys(written))
        try:
            async with asyncio.timeout(WITHIN):
                found = await self._logs[broker].check_targets(places) if places else NO_FAULTS
        except (SkybridgeError, TimeoutError) as error:
            _log.debug("the targets of %s could not be listed: %r", broker, error)
        else:
            self._faults[broker] = found
        return self._faults.get(broker, NO_FAULTS)
