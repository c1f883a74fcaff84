"""Apply the changes that any process made in the store: subscriptions, halts, commands, consents, replays.

The revision of the store is read once a second, which is cheap. After a change by this process it is read at
once. While the store does not answer, running subscriptions continue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from app.errors import SkybridgeError
from app.features.brokers.component import BrokersComponent
from app.features.subscriptions.catalog import UNREAD, SubscriptionCatalog
from app.interfaces import Clock
from app.model.subscription import Subscription
from app.sinks.handshake import ConsentCallbacks
from app.telemetry.tasks import FAILURES, keep
from app.worker.supervisor import Supervisor
from app.worker.suspensions import Suspensions
from app.worker.timing import wait_for_event

LOOK = 1.0  # seconds between reads of the store's revision

_HALFWAY = -1  # old subscriptions have ended and new ones have not started
_log = logging.getLogger(__name__)


class StoreWatcher:
    """A task that applies changes of the store to the supervisor. ``supervisor`` is None in a process that
    delivers nothing."""

    def __init__(
        self,
        catalog: SubscriptionCatalog,
        supervisor: Supervisor | None,
        brokers: BrokersComponent,
        clock: Clock,
        callbacks: ConsentCallbacks | None = None,
    ) -> None:
        self._catalog = catalog
        self._supervisor = supervisor
        self._brokers = brokers
        self._clock = clock
        self._callbacks = callbacks
        self._applied: tuple[Subscription, ...] = catalog.loaded.config.subscriptions
        self._incarnations: Mapping[str, int] = {}
        # Number of the latest configuration, and of the last one that was applied completely.
        self._wanted = self._done = 0
        self._seen = UNREAD
        self._suspensions = Suspensions(clock) if supervisor is None else supervisor.suspensions
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._troubles: dict[str, str] = {}

    async def start(self) -> None:
        """Apply the store once and begin to watch it. Problems are logged and do not prevent the start."""
        await self.look()
        await self._logging_trouble("subscriptions", self._change)
        if self._supervisor is not None:
            self._tasks.add(keep("store-changes", self._suspensions.watch, "suspensions"))
        self._tasks.add(keep("store-changes", self._follow))

    async def stop(self) -> None:
        """Stop watching, and cancel changes that are being applied."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def renew(self) -> asyncio.Task[None]:
        """Apply another configuration. Subscriptions end and start again if they or their sinks differ.
        Return the task that does this work."""
        self._wanted += 1
        return self._spawn(self._logging_trouble("subscriptions", self._change))

    async def _follow(self) -> None:
        while True:
            await wait_for_event(self._suspensions.noticed, self._clock, LOOK)
            await self.look()

    async def look(self) -> None:
        """Apply changes of the store now. Problems are logged, and the next call tries again.

        After a suspension of the process, subscriptions go on when this has ended."""
        begun = self._suspensions.begin_read()
        await self._logging_trouble("the store", self._look)
        self._suspensions.end_read(begun)

    async def _look(self) -> None:
        """Read the store and apply halts, subscriptions, commands and consents."""
        await self._catalog.refresh()
        if self._catalog.revision == self._seen and not self._is_unfinished():
            return
        seen, supervisor = self._catalog.revision, self._supervisor
        if supervisor is not None:
            supervisor.halt(self._catalog.halts)
            if self._differs():  # in a task, as draining must not delay halts and commands
                self._spawn(self._logging_trouble("subscriptions", self._change))
            await supervisor.take_commands()
            await supervisor.look()
        if self._callbacks is not None:
            await self._callbacks.look()
        self._seen = seen

    def _is_unfinished(self) -> bool:
        """Return True if an earlier change was not completed because of a failure, and no change is running
        now."""
        return self._supervisor is not None and self._differs() and not self._changing.locked()

    def _differs(self) -> bool:
        """Return True if the running subscriptions are not the subscriptions of the catalogue."""
        catalog = self._catalog
        known = self._applied, self._incarnations
        wanted = catalog.subscriptions, catalog.incarnations
        return self._done != self._wanted or known != wanted

    async def _change(self) -> None:
        """Make the supervisor run the subscriptions of the catalogue.

        A subscription that was deleted and created again does not keep its old position. A subscription that
        was removed from the file continues at its old position when it is added again. Each completed step is
        remembered, so that a later call continues after a failure.
        """
        async with self._changing:
            if self._supervisor is None or not self._differs():
                return
            built_on = self._wanted
            wanted, incarnations = self._catalog.subscriptions, self._catalog.incarnations
            known = {each.id for each in wanted}
            renewed = {
                name
                for name, made in self._incarnations.items()
                if incarnations.get(name, made) != made
            }
            removed = [each for each in self._applied if each.id not in known - renewed]
            if removed:
                await self._supervisor.apply([each for each in wanted if each.id not in renewed])
            for each in removed:
                if self._incarnations.get(each.id) != incarnations.get(each.id):
                    await self._brokers.forget(each)
                    await self._catalog.clear(each.id)
            self._applied, self._incarnations = wanted, incarnations
            self._done = _HALFWAY
            await self._supervisor.apply(wanted)
            await self._brokers.declare(wanted)
            self._done = built_on

    def _spawn(self, step: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a step as a task that ``stop`` cancels."""
        task = asyncio.create_task(step)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _logging_trouble(
        self, what: str, step: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Run a step and log its problems. A problem that repeats every second is logged only once. After a
        failure, the next call tries the step again."""
        try:
            await step()
        except SkybridgeError as error:
            if self._troubles.get(what) != str(error):
                self._troubles[what] = str(error)
                _log.warning("%s: changes cannot be applied now: %s", what, error)
        except Exception as error:  # noqa: BLE001 - reported, and running subscriptions continue
            FAILURES.failed("store-changes", what, error)
        else:
            self._troubles.pop(what, None)
            FAILURES.over("store-changes", what)
