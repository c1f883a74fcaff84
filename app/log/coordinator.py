"""Groups at work: the state machine's answers as futures, its time as timers, its generations and
commits made durable before anybody hears of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from app.log.engine import Engine
from app.log.groups import Answer, Code, Group, Join, Joined, State, Synced
from app.log.positions import Committed
from app.model.message import Partition

T = TypeVar("T", Joined, Synced)


class Coordinator:
    """Everything on the event loop. A member asks one thing at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._groups: dict[str, Group] = {}
        self._waiting: dict[tuple[str, str], asyncio.Future[Any]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._watchers: dict[str, set[Callable[[], None]]] = {}

    async def join(self, name: str, join: Join) -> Joined:
        """Returns when everybody has joined, or the rebalance time-out has removed who has not."""
        future = self._expect(name, join.member)
        self._concluded(name, self._group(name).join(join, self._loop.time()))
        return await self._or_leave(name, join.member, future)

    async def sync(
        self, name: str, member: str, generation: int, assignments: Mapping[str, bytes]
    ) -> Synced:
        """Returns when the leader has assigned."""
        future = self._expect(name, member)
        now = self._loop.time()
        self._concluded(name, self._group(name).sync(member, generation, assignments, now))
        return await self._or_leave(name, member, future)

    def heartbeat(self, name: str, member: str, generation: int) -> Code:
        return self._group(name).heartbeat(member, generation, self._loop.time())

    def leave(self, name: str, member: str) -> None:
        self._concluded(name, self._group(name).leave(member, self._loop.time()))

    async def commit(
        self, name: str, member: str, generation: int, places: Mapping[Partition, Committed]
    ) -> Code:
        """Durable when it returns NONE. Fenced by member and generation."""
        code = self._group(name).may_commit(member, generation)
        if code is Code.NONE:
            await self._engine.commit(name, places)
        return code

    def watch(self, name: str, notify: Callable[[], None]) -> None:
        """Call ``notify`` when the members are to join again, rather than at their next heartbeat."""
        self._watchers.setdefault(name, set()).add(notify)

    def unwatch(self, name: str, notify: Callable[[], None]) -> None:
        watchers = self._watchers.get(name, set())
        watchers.discard(notify)
        if not watchers:
            self._watchers.pop(name, None)

    def state(self, name: str) -> State:
        return self._groups[name].state if name in self._groups else State.EMPTY

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _group(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name, self._engine.positions.generation(name))
        return group

    def _expect(self, name: str, member: str) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[name, member] = future
        return future

    async def _or_leave(self, name: str, member: str, future: asyncio.Future[T]) -> T:
        try:
            return await future
        except asyncio.CancelledError:
            self.leave(name, member)
            raise

    def _concluded(self, name: str, answers: Sequence[Answer]) -> None:
        """After each step of a group: answer, stir its members, set its timer, forget it if empty."""
        group = self._groups[name]
        if group.state is State.COMPLETING and self._engine.positions.generation(name) < (
            group.generation
        ):
            stored = self._engine.advance(name, group.generation)
            stored.add_done_callback(lambda done: self._answer_once_stored(name, answers, done))
        else:
            self._answer(name, answers)
        if group.state is State.PREPARING:
            for notify in tuple(self._watchers.get(name, ())):
                notify()
        self._arm(group)
        if group.state is State.EMPTY:
            del self._groups[name]

    def _answer_once_stored(
        self, name: str, answers: Sequence[Answer], stored: asyncio.Future[None]
    ) -> None:
        """A generation that may be handed out twice would not fence anybody."""
        if not stored.cancelled() and stored.exception() is None:
            self._answer(name, answers)
            return
        refused = Joined(code=Code.COORDINATOR_NOT_AVAILABLE)
        self._answer(name, [(member, refused) for member, _ in answers])

    def _answer(self, name: str, answers: Sequence[Answer]) -> None:
        for member, answer in answers:
            future = self._waiting.pop((name, member), None)
            if future is not None and not future.done():
                future.set_result(answer)

    def _arm(self, group: Group) -> None:
        due = group.next_tick()
        timer = self._timers.get(group.name)
        if timer is not None:
            if due is not None and timer.when() <= due:
                return
            timer.cancel()
            del self._timers[group.name]
        if due is not None:
            self._timers[group.name] = self._loop.call_at(due, self._tick, group.name)

    def _tick(self, name: str) -> None:
        self._timers.pop(name, None)
        group = self._groups.get(name)
        if group is not None:
            self._concluded(name, group.tick(self._loop.time()))
