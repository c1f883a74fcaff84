"""Process 1: a whole service. It owns the embedded logs, the store, the worker and the admin listener, and
takes events like the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from app.config.load import Loaded
from app.config.model import Config
from app.config.source import Source
from app.interfaces import Clock
from app.runtime.build import Role, build
from app.runtime.heap import settle_heap
from app.runtime.processes.child import Child
from app.runtime.processes.crew import Crew
from app.runtime.processes.door import Doors
from app.runtime.processes.messages import HungUp, Message, Up
from app.runtime.reload.fleet import Fleet
from app.runtime.service import Service
from app.runtime.signals import Signals

Announce = Callable[[Service], None]


async def serve_all(
    config: Config,
    loaded: Loaded,
    roles: Collection[Role],
    clock: Clock,
    doors: Doors,
    child: Child,
    announce: Announce,
    source: Source | None = None,
) -> None:
    """Until it is told to leave. ``announce`` is called when the whole service accepts for the first time."""
    with Signals(patient=True) as signals:
        parts = build(config, clock, roles, loaded=loaded)
        crew = Crew(child, clock, parts.counters, parts.callbacks)
        fleet = Fleet(child, crew)
        service = Service(parts, crew=crew, doors=doors, source=source, others=fleet)
        service.hung_up = signals.hung_up

        def take(message: Message) -> None:
            if isinstance(message, HungUp):
                signals.hung_up.set()
            crew.take(message)
            fleet.take(message)

        child.listen(take)
        await service.start()
        settle_heap()
        child.pipe.send(Up())
        if child.first and await _first(crew.complete, signals.asked):
            announce(service)
        await signals.asked.wait()
        await service.stop()


async def _first(one: asyncio.Event, other: asyncio.Event) -> bool:
    """Whether ``one`` is set before ``other``."""
    waiting = [asyncio.ensure_future(each.wait()) for each in (one, other)]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
    return not other.is_set()
