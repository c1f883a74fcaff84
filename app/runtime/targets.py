"""Whether what the configuration publishes to is there and would be kept (rule 10).

Only places that are the same for every event can be looked at beforehand; what a template makes is
found out by the first event, whose answer says it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from app.brokers.portable import PortableLog
from app.config.finding import Path
from app.config.model import Config
from app.errors import SkybridgeError
from app.interfaces import Clock
from app.model.route import Exchange, Target
from app.routing.places import fixed_place, is_fixed

ASK_AGAIN = 3.0  # seconds between questions to one broker, however often we are asked
WITHIN = 2.0  # seconds: readiness must answer while a broker does not

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
        self._clock = clock
        self._faults: dict[str, Mapping[str, str]] = {}
        self._asked: dict[str, float] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def faults(self, broker: str) -> Mapping[str, str]:
        """By place: why nothing can be published there. A broker that does not answer changes
        nothing: its health tells of that."""
        task = self._asking.get(broker)
        if task is None and self._is_due(broker):
            task = self._asking[broker] = asyncio.create_task(self._ask(broker))
        if task is not None:
            await asyncio.shield(task)
        return self._faults.get(broker, NO_FAULTS)

    def _is_due(self, broker: str) -> bool:
        asked = self._asked.get(broker)
        return asked is None or self._clock.monotonic() - asked >= ASK_AGAIN

    async def _ask(self, broker: str) -> None:
        self._asked[broker] = self._clock.monotonic()
        written = (each.text for each in written_places(self._config()) if each.broker == broker)
        places = list(dict.fromkeys(written))
        try:
            async with asyncio.timeout(WITHIN):
                found = await self._logs[broker].check_targets(places) if places else NO_FAULTS
        except (SkybridgeError, TimeoutError) as error:
            _log.debug("targets of %s were not told: %r", broker, error)
        else:
            self._faults[broker] = found
        finally:
            del self._asking[broker]
