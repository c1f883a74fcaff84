"""Groups at work: the state machine's answers as futures, its time as timers, its generations and
commits made durable before anybody hears of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from app.access.quota import SharedLimit
from app.log.groups.positions import Committed, growth
from app.log.groups.protocol import Answer, Code, Join, Joined, State, Synced
from app.log.groups.state_machine import Group
from app.log.groups.store import GroupStore
from app.model.message import Partition

T = TypeVar("T", Joined, Synced)

MOST_GROUPS = 10_000  # with members
MOST_INVITED = 10_000
MOST_HELD = 64 << 20  # bytes of members and their assignments; one user has a share


class Coordinator:
    """Everything on the event loop. A member asks one thing at a time: a second question, as over a new
    connection, takes the place of the first."""

    def __init__(self, store: GroupStore) -> None:
        self._store = store
        self._groups: dict[str, Group] = {}
        self._invited: dict[tuple[str, str], None] = {}
        self._waiting: dict[tuple[str, str], tuple[type[Joined | Synced], asyncio.Future[Any]]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._watchers: dict[str, set[Callable[[], None]]] = {}
        self._weights: dict[str, dict[str, int]] = {}  # of each group, by user
        self._held = SharedLimit(MOST_HELD)
        self._committing = SharedLimit(
            store.positions.held.bound
        )  # commits that are not stored yet

    def invite(self, name: str, member: str) -> None:
        """The member may join as a returning one, though nobody knows it yet (KIP-394). Of many who
        never come the oldest are forgotten."""
        self._invited[name, member] = None
        if len(self._invited) > MOST_INVITED:
            del self._invited[next(iter(self._invited))]

    async def join(self, name: str, join: Join) -> Joined:
        """Returns when everybody has joined, or the rebalance time-out has removed who has not."""
        if (name, join.member) in self._invited:
            del self._invited[name, join.member]
            join = msgspec.structs.replace(join, returning=False)
        if name not in self._groups and len(self._groups) >= MOST_GROUPS:
            return Joined(code=Code.COORDINATOR_NOT_AVAILABLE)
        if join.user is not None and (code := self._refusal(name, join)) is not Code.NONE:
            return Joined(code=code)
        future = self._expect(name, join.member, Joined)
        group = self._groups[name] = self._group(name)
        self._concluded(name, group.join(join, _now()))
        return await self._or_leave(name, join.member, future)

    async def sync(
        self,
        name: str,
        member: str,
        generation: int,
        assignments: Mapping[str, bytes],
        instance: str | None = None,
    ) -> Synced:
        """Returns when the leader has assigned."""
        if name not in self._groups:
            return Synced(Code.UNKNOWN_MEMBER)
        if not self._may_assign(self._groups[name], member, assignments):
            return Synced(Code.POLICY_VIOLATION)
        future = self._expect(name, member, Synced)
        now = _now()
        answers = self._groups[name].sync(member, generation, assignments, now, instance)
        self._concluded(name, answers)
        return await self._or_leave(name, member, future)

    def heartbeat(
        self, name: str, member: str, generation: int, instance: str | None = None
    ) -> Code:
        return self._group(name).heartbeat(member, generation, _now(), instance)

    def leave(self, name: str, member: str) -> Code:
        group = self._groups.get(name)
        if group is None or member not in group.members:
            return Code.UNKNOWN_MEMBER
        self._concluded(name, group.leave(member, _now()))
        return Code.NONE

    async def commit(
        self,
        name: str,
        member: str,
        generation: int,
        places: Mapping[Partition, Committed],
        instance: str | None = None,
        owner: str | None = None,
    ) -> Code:
        """Durable when it returns NONE. Fenced by member and generation. ``owner``: a client's, whose places are
        counted, and who creates the group if it is new; None for Skybridge's own."""
        code = self._group(name).may_commit(member, generation, instance)
        if code is not Code.NONE:
            return code
        if owner is None:
            await self._store.commit(name, places)
            return code
        return await self._commit_counted(name, places, owner)

    async def _commit_counted(
        self, name: str, places: Mapping[Partition, Committed], owner: str
    ) -> Code:
        positions = self._store.positions
        if not positions.claim(name, owner):
            return Code.POLICY_VIOLATION
        payer = positions.owner(name)
        grown = max(0, growth(positions.of(name), places))
        if grown and grown > positions.held.left(payer) - self._committing.of(payer):
            return Code.METADATA_TOO_LARGE
        self._committing.add(payer, grown)
        try:
            await self._store.commit(name, places)
        finally:
            self._committing.add(payer, -grown)
        return Code.NONE

    def may_commit(self, name: str, member: str, generation: int) -> bool:
        """For a caller that commits by itself, with others."""
        return self._group(name).may_commit(member, generation) is Code.NONE

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

    def group(self, name: str) -> Group | None:
        """To look at, not to change; None without members."""
        return self._groups.get(name)

    def groups(self) -> list[str]:
        """All there are: with members, or with positions."""
        return sorted({*self._groups, *self._store.positions.groups()})

    async def forget_idle(self, before_ms: int) -> int:
        """Forget the groups without members that have not been used since a time, and return their number."""
        return await self._store.forget_idle(before_ms, self._groups.__contains__)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _refusal(self, name: str, join: Join) -> Code:
        """Why the member of a client cannot be let in: what it brings is too large, or its user has created too
        many groups."""
        group, user = self._groups.get(name), join.user or ""
        known = None if group is None else group.members.get(join.member)
        before = known.weight if known is not None and known.join.user == user else 0
        if join.weight > before and join.weight - before > self._held.left(user):
            return Code.GROUP_FULL
        if not self._store.positions.claim(name, join.owner):
            return Code.POLICY_VIOLATION
        return Code.NONE

    def _may_assign(self, group: Group, member: str, assignments: Mapping[str, bytes]) -> bool:
        """Whether there is room for what the leader assigns, if it is the leader who asks."""
        leader = group.members.get(member)
        if leader is None or member != group.leader or leader.join.user is None:
            return True
        size = sum(len(each) for name, each in assignments.items() if name in group.members)
        return size <= self._held.left(leader.join.user)

    def _weigh(self, group: Group) -> None:
        """Count the bytes of its members anew."""
        weights = group.weights()
        for user, weight in self._weights.pop(group.name, {}).items():
            self._held.add(user, -weight)
        if weights:
            self._weights[group.name] = weights
            for user, weight in weights.items():
                self._held.add(user, weight)

    def _group(self, name: str) -> Group:
        """One without members is as it was left; it is kept only once somebody joins."""
        return self._groups.get(name) or Group(name, self._store.positions.generation(name))

    def _expect(self, name: str, member: str, kind: type[T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        before = self._waiting.get((name, member))
        if before is not None:
            earlier, question = before
            if not question.done():
                question.set_result(earlier(code=Code.REBALANCE_IN_PROGRESS))
        self._waiting[name, member] = (kind, future)
        return future

    async def _or_leave(self, name: str, member: str, future: asyncio.Future[T]) -> T:
        """A member whose question nobody waits for any more is gone, unless it has asked another."""
        try:
            return await future
        except asyncio.CancelledError:
            if self._waiting.get((name, member), (None, None))[1] is future:
                del self._waiting[name, member]
                self.leave(name, member)
            raise

    def _concluded(self, name: str, answers: Sequence[Answer]) -> None:
        """After each step of a group: answer, stir its members, set its timer, forget it if empty."""
        group = self._groups[name]
        if group.state is State.COMPLETING and self._store.positions.generation(name) < (
            group.generation
        ):
            stored = self._store.advance(name, group.generation)
            stored.add_done_callback(lambda done: self._answer_once_stored(name, answers, done))
        else:
            self._answer(name, answers)
        if group.state is State.PREPARING:
            for notify in tuple(self._watchers.get(name, ())):
                notify()
        self._arm(group)
        self._weigh(group)
        if group.state is State.EMPTY:
            del self._groups[name]
            self._store.used(name)

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
            _, future = self._waiting.pop((name, member), (None, None))
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
            self._timers[group.name] = asyncio.get_running_loop().call_at(
                due, self._tick, group.name
            )

    def _tick(self, name: str) -> None:
        self._timers.pop(name, None)
        group = self._groups.get(name)
        if group is not None:
            self._concluded(name, group.tick(_now()))


def _now() -> float:
    """Return the time of the event loop, in seconds."""
    return asyncio.get_running_loop().time()
