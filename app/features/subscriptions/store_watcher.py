"""Takes up what any process changed in the store: subscriptions, halts, commands, consents, replays.

The store's revision is asked for once a second, which is cheap, and at once when this process changed
something itself. A store that cannot be asked changes nothing: what runs goes on running.
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
from app.sinks.handshake import Callbacks
from app.telemetry.tasks import FAILURES, keep
from app.worker.supervisor import Supervisor

LOOK = 1.0  # seconds between looks at the store's revision

_HALFWAY = -1  # the old ones are forgotten, the new ones not begun
_log = logging.getLogger(__name__)


class StoreWatcher:
    """``supervisor`` None: this process delivers nothing, and only knows what there is."""

    def __init__(
        self,
        catalog: SubscriptionCatalog,
        supervisor: Supervisor | None,
        brokers: BrokersComponent,
        clock: Clock,
        callbacks: Callbacks | None = None,
    ) -> None:
        self._catalog = catalog
        self._supervisor = supervisor
        self._brokers = brokers
        self._clock = clock
        self._callbacks = callbacks
        self._applied: tuple[Subscription, ...] = catalog.loaded.config.subscriptions
        self._incarnations: Mapping[str, int] = {}
        # Of what subscriptions are built on: how often it was another, and what has been applied of that.
        self._wanted = self._done = 0
        self._seen = UNREAD
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._troubles: dict[str, str] = {}

    async def start(self) -> None:
        """Returns when what the store has is begun, or its trouble is said."""
        await self.look()
        await self._said("subscriptions", self._change)
        self._tasks.add(keep("store-changes", self._follow))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def renew(self) -> asyncio.Task[None]:
        """The file is another: what differs ends and begins, what it is built on too. Done with the task."""
        self._wanted += 1
        return self._spawn(self._said("subscriptions", self._change))

    async def _follow(self) -> None:
        while True:
            await self._clock.sleep(LOOK)
            await self.look()

    async def look(self) -> None:
        """Take up what is new, now. Trouble is said, and met again by the next look."""
        await self._said("the store", self._look)

    async def _look(self) -> None:
        await self._catalog.refresh()
        if self._catalog.revision == self._seen and not self._left_undone():
            return
        seen, supervisor = self._catalog.revision, self._supervisor
        if supervisor is not None:
            supervisor.halt(self._catalog.halts)
            if self._differs():  # beside us: what drains must not hold up halts and commands
                self._spawn(self._said("subscriptions", self._change))
            await supervisor.take_commands()
            await supervisor.look()
        if self._callbacks is not None:
            await self._callbacks.look()
        self._seen = seen

    def _left_undone(self) -> bool:
        """Whether a change met trouble; one that is under way is waited for."""
        return self._supervisor is not None and self._differs() and not self._changing.locked()

    def _differs(self) -> bool:
        catalog = self._catalog
        known = self._applied, self._incarnations
        wanted = catalog.subscriptions, catalog.incarnations
        return self._done != self._wanted or known != wanted

    async def _change(self) -> None:
        """One that was deleted and made again is forgotten in between, or it would go on where the
        other was; one that left the file, or cannot run by it, goes on where it was once it is back. What is done is noted step by step: after trouble the rest is done by a later look."""
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
            left = [each for each in self._applied if each.id not in known - renewed]
            if left:
                await self._supervisor.apply([each for each in wanted if each.id not in renewed])
            for each in left:
                if self._incarnations.get(each.id) != incarnations.get(each.id):
                    await self._brokers.forget(each)
                    await self._catalog.clear(each.id)
            self._applied, self._incarnations = wanted, incarnations
            self._done = _HALFWAY
            await self._supervisor.apply(wanted)
            await self._brokers.declare(wanted)
            self._done = built_on

    def _spawn(self, step: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(step)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _said(self, what: str, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Each trouble once, not each second; the next look tries again."""
        try:
            await step()
        except SkybridgeError as error:
            if self._troubles.get(what) != str(error):
                self._troubles[what] = str(error)
                _log.warning("%s: changes cannot be applied now: %s", what, error)
        except Exception as error:  # noqa: BLE001 - said, and whatever runs goes on running
            FAILURES.failed("store-changes", what, error)
        else:
            self._troubles.pop(what, None)
            FAILURES.over("store-changes", what)
