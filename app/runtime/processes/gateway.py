"""A gateway process beside the first: the events listener, and the way to the brokers. Nothing else.

It has no store, no worker and no admin listener; an embedded log it reaches through its door. How it fares
it tells once a second, and a webhook's consent it passes on to process 1, which asked for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Collection

from app.config.model import Config
from app.interfaces import Clock
from app.runtime.build import Role, consents_later, open_events
from app.runtime.logs import open_logs
from app.runtime.processes.child import Child
from app.runtime.processes.crew import series_of
from app.runtime.processes.door import Doors
from app.runtime.processes.messages import Asked, Message, Report, Told, Up
from app.runtime.service import bounded
from app.runtime.state import routes_fare
from app.telemetry import Counters

REPORT = 1.0  # seconds between reports
ANSWER = 5.0  # seconds for process 1 to say whether it asked for a consent


class Gateway:
    def __init__(
        self, config: Config, roles: Collection[Role], clock: Clock, doors: Doors, child: Child
    ) -> None:
        self._config = config
        self._clock = clock
        self._child = child
        self._counters = Counters()
        self._logs = open_logs(config, doors=doors)
        later = self._ask if consents_later(config, roles) else None
        self._events = open_events(config, self._logs, self._counters, later)
        self._numbers = itertools.count(os.getpid() << 32)  # no answer to one before us is ours
        self._asked: dict[int, asyncio.Future[bool]] = {}
        self._reporting: asyncio.Task[None] | None = None
        self._closing = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Raises SetupError, with everything that had started stopped again."""
        self._child.listen(self._take)
        try:
            for name, log in self._logs.items():
                await log.start()
                drain = self._config.timeouts.drain
                self._closing.push_async_callback(bounded, f"broker {name}", log.stop, drain)
            await self._events.start()
        except BaseException:
            await self._closing.aclose()
            raise
        self._child.pipe.send(Up())
        self._reporting = asyncio.create_task(self._report())

    async def stop(self) -> None:
        """As ``Service.stop``, by the same bounds."""
        timeouts = self._config.timeouts
        await self._clock.sleep(timeouts.not_ready)
        await bounded("events", self._events.stop, timeouts.drain, timeouts.drain)
        if self._reporting is not None:
            self._reporting.cancel()
        await self._closing.aclose()

    async def _report(self) -> None:
        while True:
            self._child.pipe.send(await self._fares())
            await self._clock.sleep(REPORT)

    async def _fares(self) -> Report:
        told = await asyncio.gather(*(log.health() for log in self._logs.values()))
        healths = dict(zip(self._logs, told, strict=True))
        ready, causes = routes_fare(self._config.routes, healths, {})
        return Report(ready, tuple(causes), series_of(self._counters.values()))

    async def _ask(self, key: str, rate: str | None) -> bool | None:
        number = next(self._numbers)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._child.pipe.send(Asked(number, key, rate))
        try:
            return await asyncio.wait_for(answer, ANSWER)
        except TimeoutError:
            return None
        finally:
            del self._asked[number]

    def _take(self, message: Message) -> None:
        if isinstance(message, Told):
            answer = self._asked.get(message.id)
            if answer is not None and not answer.done():
                answer.set_result(message.known)
