"""The group coordinator: runs the state machines of groups with futures and timers.

New generations and commits are durable before a member gets its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from app.access.quota import SharedLimit
from app.log.groups.positions import CommittedOffset, growth
from app.log.groups.protocol import (
    Answer,
    Code,
    GroupJoinRequest,
    GroupJoinResult,
    GroupState,
    SyncResult,
)
from app.log.groups.state_machine import ConsumerGroup
from app.log.groups.store import GroupStore
from app.model.message import Partition

T = TypeVar("T", GroupJoinResult, SyncResult)

MOST_GROUPS = 10_000  # with members
MOST_INVITED = 10_000  # member names that were given out and not used yet
MOST_HELD = 64 << 20  # bytes of members and their assignments; each user has a share


class Coordinator:
    """The coordinator of a log's groups, on the event loop.

    A member has one pending request at a time. A second one, as over a new connection, replaces the first."""

    def __init__(self, store: GroupStore) -> None:
        self._store = store
        self._groups: dict[str, ConsumerGroup] = {}
        self._invited: dict[tuple[str, str], None] = {}
        self._waiting: dict[
            tuple[str, str], tuple[type[GroupJoinResult | SyncResult], asyncio.Future[Any]]
        ] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._watchers: dict[str, set[Callable[[], None]]] = {}
        self._weights: dict[str, dict[str, int]] = {}  # bytes by group and user
        self._held = SharedLimit(MOST_HELD)
        self._committing = SharedLimit(
            store.positions.held.bound
        )  # commits that are not stored yet

    def invite(self, name: str, member: str) -> None:
        """Let a new member join with the id that it was just given (KIP-394). Old invitations that were not used
        are dropped."""
        self._invited[name, member] = None
        if len(self._invited) > MOST_INVITED:
            del self._invited[next(iter(self._invited))]

    async def join(self, name: str, join: GroupJoinRequest) -> GroupJoinResult:
        """Join a group. Return the answer when all members have joined, or the rebalance time-out has removed the
        others."""
        if (name, join.member) in self._invited:
            del self._invited[name, join.member]
            join = msgspec.structs.replace(join, returning=False)
        if name not in self._groups and len(self._groups) >= MOST_GROUPS:
            return GroupJoinResult(code=Code.COORDINATOR_NOT_AVAILABLE)
        if join.user is not None and (code := self._refusal(name, join)) is not Code.NONE:
            return GroupJoinResult(code=code)
        future = self._ask(name, join.member, GroupJoinResult)
        group = self._groups[name] = self._group(name)
        self._apply_answers(name, group.join(join, _now()))
        return await self._await_or_leave(name, join.member, future)

    async def sync(
        self,
        name: str,
        member: str,
        generation: int,
        assignments: Mapping[str, bytes],
        instance: str | None = None,
    ) -> SyncResult:
        """Return the member's assignment once the leader has assigned."""
        if name not in self._groups:
            return SyncResult(Code.UNKNOWN_MEMBER)
        if not self._may_assign(self._groups[name], member, assignments):
            return SyncResult(Code.POLICY_VIOLATION)
        future = self._ask(name, member, SyncResult)
        now = _now()
        answers = self._groups[name].sync(member, generation, assignments, now, instance)
        self._apply_answers(name, answers)
        return await self._await_or_leave(name, member, future)

    def heartbeat(
        self, name: str, member: str, generation: int, instance: str | None = None
    ) -> Code:
        """Extend the session of a member, and return whether it has to join again."""
        return self._group(name).heartbeat(member, generation, _now(), instance)

    def leave(self, name: str, member: str) -> Code:
        """Remove a member from its group."""
        group = self._groups.get(name)
        if group is None or member not in group.members:
            return Code.UNKNOWN_MEMBER
        self._apply_answers(name, group.leave(member, _now()))
        return Code.NONE

    async def commit(
        self,
        name: str,
        member: str,
        generation: int,
        places: Mapping[Partition, CommittedOffset],
        instance: str | None = None,
        owner: str | None = None,
    ) -> Code:
        """Commit positions of a group, which are durable when NONE is returned.

        Args:
            name: the group.
            member: the member, which must have the current generation.
            generation: the member's generation.
            places: the positions.
            instance: the static name of the member.
            owner: the user of a client, whose share is used and who creates a new group; None for Skybridge's
                workers.
        """
        code = self._group(name).may_commit(member, generation, instance)
        if code is not Code.NONE:
            return code
        if owner is None:
            await self._store.commit(name, places)
            return code
        return await self._commit_counted(name, places, owner)

    async def _commit_counted(
        self, name: str, places: Mapping[Partition, CommittedOffset], owner: str
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
        """Return True if the member may commit positions now. It is for callers that commit several groups to the
        store themselves."""
        return self._group(name).may_commit(member, generation) is Code.NONE

    def watch(self, name: str, notify: Callable[[], None]) -> None:
        """Call ``notify`` when the members have to join again, instead of at their next heartbeat."""
        self._watchers.setdefault(name, set()).add(notify)

    def unwatch(self, name: str, notify: Callable[[], None]) -> None:
        watchers = self._watchers.get(name, set())
        watchers.discard(notify)
        if not watchers:
            self._watchers.pop(name, None)

    def state(self, name: str) -> GroupState:
        """Return the state of a group. Return EMPTY for an unknown group."""
        return self._groups[name].state if name in self._groups else GroupState.EMPTY

    def group(self, name: str) -> ConsumerGroup | None:
        """Return a group to read its state, or None if it has no members."""
        return self._groups.get(name)

    def groups(self) -> list[str]:
        """Return the names of all groups that have members or positions."""
        return sorted({*self._groups, *self._store.positions.groups()})

    async def forget_idle(self, before_ms: int) -> int:
        """Drop the groups without members that have not been used since ``before_ms``. Return their number."""
        return await self._store.forget_idle(before_ms, self._groups.__contains__)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _refusal(self, name: str, join: GroupJoinRequest) -> Code:
        """Return why a client's member cannot join: its request is too large, or its user has created too many
        groups."""
        group, user = self._groups.get(name), join.user or ""
        known = None if group is None else group.members.get(join.member)
        before = known.weight if known is not None and known.join.user == user else 0
        if join.weight > before and join.weight - before > self._held.left(user):
            return Code.GROUP_FULL
        if not self._store.positions.claim(name, join.owner):
            return Code.POLICY_VIOLATION
        return Code.NONE

    def _may_assign(
        self, group: ConsumerGroup, member: str, assignments: Mapping[str, bytes]
    ) -> bool:
        """Return True if the memory bound allows the leader's assignments. Other members assign nothing."""
        leader = group.members.get(member)
        if leader is None or member != group.leader or leader.join.user is None:
            return True
        size = sum(len(each) for name, each in assignments.items() if name in group.members)
        return size <= self._held.left(leader.join.user)

    def _count_bytes(self, group: ConsumerGroup) -> None:
        """Count the bytes of a group again, because the group has changed."""
        weights = group.weights()
        for user, weight in self._weights.pop(group.name, {}).items():
            self._held.add(user, -weight)
        if weights:
            self._weights[group.name] = weights
            for user, weight in weights.items():
                self._held.add(user, weight)

    def _group(self, name: str) -> ConsumerGroup:
        """Return a group. If it is not in memory, return a new one with its stored generation, which is kept only
        if a member joins."""
        return self._groups.get(name) or ConsumerGroup(name, self._store.positions.generation(name))

    def _ask(self, name: str, member: str, kind: type[T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        before = self._waiting.get((name, member))
        if before is not None:
            earlier, question = before
            if not question.done():
                question.set_result(earlier(code=Code.REBALANCE_IN_PROGRESS))
        self._waiting[name, member] = (kind, future)
        return future

    async def _await_or_leave(self, name: str, member: str, future: asyncio.Future[T]) -> T:
        """Await the answer to a request of a member. If the caller is cancelled and the member has made no newer
        request, remove the member."""
        try:
            return await future
        except asyncio.CancelledError:
            if self._waiting.get((name, member), (None, None))[1] is future:
                del self._waiting[name, member]
                self.leave(name, member)
            raise

    def _apply_answers(self, name: str, answers: Sequence[Answer]) -> None:
        """Answer requests, notify members, set the timer, and drop an empty group. Called after each step of a
        group."""
        group = self._groups[name]
        if group.state is GroupState.COMPLETING and self._store.positions.generation(name) < (
            group.generation
        ):
            stored = self._store.advance(name, group.generation)
            stored.add_done_callback(lambda done: self._answer_once_stored(name, answers, done))
        else:
            self._answer(name, answers)
        if group.state is GroupState.PREPARING:
            for notify in tuple(self._watchers.get(name, ())):
                notify()
        self._arm(group)
        self._count_bytes(group)
        if group.state is GroupState.EMPTY:
            del self._groups[name]
            self._store.used(name)

    def _answer_once_stored(
        self, name: str, answers: Sequence[Answer], stored: asyncio.Future[None]
    ) -> None:
        """Answer once the new generation is stored. Otherwise a restart could use a generation twice, and old
        members would not be fenced."""
        if not stored.cancelled() and stored.exception() is None:
            self._answer(name, answers)
            return
        refused = GroupJoinResult(code=Code.COORDINATOR_NOT_AVAILABLE)
        self._answer(name, [(member, refused) for member, _ in answers])

    def _answer(self, name: str, answers: Sequence[Answer]) -> None:
        for member, answer in answers:
            _, future = self._waiting.pop((name, member), (None, None))
            if future is not None and not future.done():
                future.set_result(answer)

    def _arm(self, group: ConsumerGroup) -> None:
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
            self._apply_answers(name, group.tick(_now()))


def _now() -> float:
    """Return the time of the event loop, in seconds."""
    return asyncio.get_running_loop().time()
