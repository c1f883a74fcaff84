"""A gateway process beside the first: the events listener, and the way to the brokers. Nothing else.

It has no store, no worker and no admin listener; an embedded log it reaches through its door. How it fares
it tells once a second, and a webhook's consent it passes on to process 1, which asked for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
from collections.abc import Collection

from app.config.model import Config
from app.config.source import Source
from app.errors import SetupError
from app.gateway.server import EventsServer
from app.interfaces import Clock
from app.runtime.build import Role, consents_later, open_events
from app.runtime.logs import open_logs, rebound
from app.runtime.processes.child import Child
from app.runtime.processes.crew import series_of
from app.runtime.processes.door import Doors
from app.runtime.processes.messages import (
    Asked,
    Built,
    Message,
    Offered,
    Report,
    Swap,
    Swapped,
    Told,
    Up,
)
from app.runtime.service import LAST_WORDS, bounded
from app.runtime.state import routes_fare
from app.runtime.tracing import end_traces
from app.telemetry import Counters, set_up_logging

REPORT = 1.0  # seconds between reports
ANSWER = 5.0  # seconds for process 1 to say whether it asked for a consent

_log = logging.getLogger(__name__)


class Gateway:
    def __init__(
        self,
        config: Config,
        roles: Collection[Role],
        clock: Clock,
        doors: Doors,
        child: Child,
        source: Source | None = None,
    ) -> None:
        self._config = config
        self._source = source
        self._next: tuple[int, Config, EventsServer] | None = None  # built, not in use yet
        self._building: set[asyncio.Task[None]] = set()
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
        await bounded("traces", end_traces, LAST_WORDS)

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
        match message:
            case Told():
                answer = self._asked.get(message.id)
                if answer is not None and not answer.done():
                    answer.set_result(message.known)
            case Offered():
                task = asyncio.create_task(self._build(message))
                self._building.add(task)
                task.add_done_callback(self._building.discard)
            case Swap():
                self._swap(message.id)
            case _:
                pass

    async def _build(self, offered: Offered) -> None:
        """Process 1 has judged it; here it has to be possible."""
        fault = "it has no file"
        try:
            if self._source is not None:
                loaded = await asyncio.to_thread(self._source.load, offered.raw)
                events = open_events(loaded.config, self._logs, self._counters, None)
                self._next, fault = (offered.id, loaded.config, events), ""
        except SetupError as error:
            fault = str(error)
        self._child.pipe.send(Built(offered.id, fault))

    def _swap(self, number: int) -> None:
        if self._next is None or self._next[0] != number:
            _log.warning("this process has not what the others use, and makes room for another")
            os.kill(os.getpid(), signal.SIGTERM)
            return
        (_, config, events), self._next = self._next, None
        was, self._config = self._config, config
        self._events.become(events)
        rebound(config, self._logs)
        if config.log != was.log:
            set_up_logging(config.log.level, as_json=config.log.format == "json")
        self._child.pipe.send(Swapped(number))
