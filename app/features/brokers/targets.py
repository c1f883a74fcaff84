"""Whether what the configuration publishes to is there and would be kept (rule 10).

Only places that are the same for every event can be looked at beforehand; what a template makes is
found out by the first event, whose answer says it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from app.brokers.portable import PortableLog
from app.brokers.sharing import Shared
from app.config.load.finding import Path
from app.config.model.config import Config
from app.errors import SkybridgeError
from app.interfaces import Clock
from app.model.route import Exchange, Target
from app.routing.places import fixed_place, is_fixed

ASK_AGAIN = 3.0  # seconds between questions to one broker, however often we are asked
WITHIN = 2.0  # seconds: readiness must answer while a broker does not

Faults = Mapping[str, Mapping[str, str]]
"""By broker and place: why nothing can be published there."""
NO_FAULTS: Mapping[str, str] = MappingProxyType({})

_log = logging.getLogger(__name__)


class Written(NamedTuple):
    """A place that is published to, and where the configuration says so. ``text``: as the log is told."""

    broker: str
    text: str
    path: Path


def written_places(config: Config) -> Iterator[Written]:
    """Of routes, mirrors, dead letters and operator events; templates are left out."""
    for n, route in enumerate(config.routes):
        for target in route.to:
            if is_fixed(target):
                yield Written(target.broker, fixed_place(target), ("routes", n, "to"))
    for n, subscription in enumerate(config.subscriptions):
        sink, letters = subscription.sink, subscription.dead_letter
        if isinstance(sink, Target | Exchange) and is_fixed(sink):
            yield Written(sink.broker, fixed_place(sink), ("subscriptions", n, "sink"))
        if letters is not None:
            path = ("subscriptions", n, "dead_letter")
            yield Written(letters.broker, letters.topic, path)
    told = config.operator_events
    if told is not None:
        yield Written(told.broker, told.topic, ("operator_events",))


class Targets:
    """What is wrong with them, from a memory a few seconds old: asking costs the brokers something,
    and readiness is asked often. ``config``: as it is now, with the subscriptions that the API made."""

    def __init__(
        self, config: Callable[[], Config], logs: Mapping[str, PortableLog], clock: Clock
    ) -> None:
        self._config = config
        self._logs = logs
        self._faults: dict[str, Mapping[str, str]] = {}
        self._asking = Shared(ASK_AGAIN, clock.monotonic)

    async def faults(self, broker: str) -> Mapping[str, str]:
        """By place: why nothing can be published there. A broker that does not answer changes
        nothing: its health tells of that."""
        return await self._asking.ask(broker, partial(self._ask, broker))

    async def _ask(self, broker: str) -> Mapping[str, str]:
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
