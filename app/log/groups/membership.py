"""A group member in this process, for as long as its consumer lives: join, get partitions, heartbeat, rebalance."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, Protocol
from uuid import uuid4

import msgspec

from app.log.groups.assignment import (
    STRATEGY,
    assign_ranges,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from app.log.groups.coordinator import Coordinator
from app.log.groups.protocol import Code, GroupJoinRequest, GroupJoinResult
from app.log.partitions import LogTopic
from app.model.message import Partition
from app.telemetry.light_event import LightEvent

End = Literal["rebalance", "lost"]
_log = logging.getLogger(__name__)


class GroupTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a membership, in seconds. ``rebalance_timeout`` bounds how long a revocation waits for the consumer."""

    session_timeout: float = 10.0
    rebalance_timeout: float = 30.0
    heartbeat_interval: float = 3.0
    retry_interval: float = 0.5


class HeartbeatTimer:
    """Calls all registered functions every ``interval`` seconds. No timer runs while none is registered."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._called: dict[Callable[[], None], None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: Callable[[], None]) -> None:
        self._called[call] = None
        if self._timer is None:
            self._set()

    def remove(self, call: Callable[[], None]) -> None:
        self._called.pop(call, None)
        if not self._called and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._round)

    def _round(self) -> None:
        self._set()
        for call in tuple(self._called):
            call()


class MembershipListener(Protocol):
    """The consumer of a member, which is notified of its partitions."""

    def gained(self, partitions: Sequence[Partition], epoch: int) -> None: ...

    def revoking(self) -> LightEvent:
        """Notify the consumer's user of the revocation. The returned event is set when the user is done."""

    async def released(self) -> None:
        """Commit the finished messages and drop the partitions."""

    def lost(self) -> None:
        """Drop the partitions without a commit, because another member may own them already."""

    def failed(self, error: Exception) -> None:
        """Fail the consumer, because the member cannot go on."""


class GroupMembership:
    """A member of a group in this process.

    Args:
        coordinator: the coordinator of the log.
        owner: the consumer, which is notified.
        group: the group.
        wanted: the topics to read.
        topics: returns all topics of the log by name.
        client: the prefix of the member's name.
        times: the times of the membership.
        beats: calls for heartbeats, together with all other members.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        owner: MembershipListener,
        group: str,
        wanted: Sequence[str],
        topics: Callable[[], Mapping[str, LogTopic]],
        *,
        client: str,
        times: GroupTimes,
        beats: HeartbeatTimer,
    ) -> None:
        self._coordinator = coordinator
        self._owner = owner
        self._wanted = tuple(wanted)
        self._topics = topics
        self._client = client
        self._times = times
        self._beats = beats
        self._loop = asyncio.get_running_loop()
        self._rejoin = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.group = group
        self.member = self._new_name()
        self.generation = -1
        self._refusal_logged = False
        self.lease = (
            0.0  # until this time of the event loop, no other member can own the partitions
        )

    def start(self) -> None:
        """Start the task that joins the group."""
        self._coordinator.watch(self.group, self._rejoin.set)
        name = f"member {self.group} {self.member}"
        self._task = asyncio.create_task(self._run(), name=name)
        self._task.add_done_callback(self._ended)

    async def leave(self) -> None:
        """Stop, and leave the group, so that others get the partitions before the session ends."""
        self._coordinator.unwatch(self.group, self._rejoin.set)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._owner.released()
        self.lease = 0.0
        self._coordinator.leave(self.group, self.member)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Fail the consumer if the task ended without being cancelled, which is a bug."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._owner.failed(error)

    async def _run(self) -> None:
        while True:
            assignment = await self._join_and_sync()
            if assignment is None:
                continue
            self._renew()
            self._owner.gained(assignment, self.generation)
            if await self._hold() == "rebalance":
                await self._give_up()
            else:
                self._lose()

    async def _join_and_sync(self) -> list[Partition] | None:
        """Return the assignment. Return None if the group rebalances again or cannot answer, so the caller repeats."""
        joined = await self._coordinator.join(self.group, self._join_request())
        if joined.code is not Code.NONE:
            await self._refused(joined.code)
            return None
        self._refusal_logged = False
        self.generation = joined.generation
        synced = await self._coordinator.sync(
            self.group, self.member, self.generation, self._assign(joined)
        )
        if synced.code is not Code.NONE:
            await self._refused(synced.code)
            return None
        return read_assignment(synced.assignment)

    def _join_request(self) -> GroupJoinRequest:
        return GroupJoinRequest(
            member=self.member,
            client=self._client,
            protocols=((STRATEGY, write_subscription(self._wanted)),),
            session_timeout=self._times.session_timeout,
            rebalance_timeout=self._times.rebalance_timeout,
        )

    def _assign(self, joined: GroupJoinResult) -> dict[str, bytes]:
        """Return the assignments of all members if this member is the leader, else nothing."""
        wanted = {member: read_subscription(data) for member, data in joined.members}
        topics = self._topics()
        counts = {
            topic: len(topics[topic].partitions)
            for topic in {topic for names in wanted.values() for topic in names}
            if topic in topics
        }
        given = assign_ranges(wanted, counts)
        return {member: write_assignment(partitions) for member, partitions in given.items()}

    async def _refused(self, code: Code) -> None:
        if code is Code.INCONSISTENT_PROTOCOL and not self._refusal_logged:
            self._refusal_logged = True
            _log.warning("group %s: its members do not support %s; retrying", self.group, STRATEGY)
        if code is Code.UNKNOWN_MEMBER:
            self.member = self._new_name()
        elif code is not Code.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(self._times.retry_interval)

    async def _hold(self) -> End:
        """Send heartbeats with all other members until the group rebalances or has removed this member."""
        self._beats.add(self._beat_or_rejoin)
        try:
            while True:
                self._rejoin.clear()
                code = self._beat()
                if code is Code.REBALANCE_IN_PROGRESS:
                    return "rebalance"
                if code is not Code.NONE:
                    return "lost"
                await self._rejoin.wait()
        finally:
            self._beats.remove(self._beat_or_rejoin)

    async def _give_up(self) -> None:
        """Wait for the consumer to end its work, at most the rebalance time-out, then commit and release the
        partitions."""
        dealt_with = self._owner.revoking()
        until = self._loop.time() + self._times.rebalance_timeout
        while not dealt_with.is_set() and self._loop.time() < until:
            if self._beat() not in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
                self._lose()
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self._times.heartbeat_interval):
                    await dealt_with.wait()
        await self._owner.released()
        self.lease = 0.0

    def _lose(self) -> None:
        self.lease = 0.0
        self._owner.lost()
        self.member = self._new_name()

    def _beat_or_rejoin(self) -> None:
        if self._beat() is not Code.NONE:
            self._rejoin.set()

    def _beat(self) -> Code:
        code = self._coordinator.heartbeat(self.group, self.member, self.generation)
        if code in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
            self._renew()
        return code

    def _renew(self) -> None:
        self.lease = self._loop.time() + self._times.session_timeout

    def _new_name(self) -> str:
        return f"{self._client}-{uuid4().hex}"
