"""Kafka's classic group protocol for one group, as a pure state machine.

Time is an argument, in seconds of a monotonic clock. A join is answered when all members have joined, and a sync
when the leader has assigned. These answers are returned as a list of ``(member, answer)`` by the call or ``tick``
that made them due. Workers in the process use them directly, and the Kafka listener sends them over the wire.

::

    EMPTY ── first join ──▶ PREPARING ── all joined, or time-out ──▶ COMPLETING
      ▲                       ▲   ▲                                        | leader's sync
      └── last member gone ───┘   └── join, leave, no session ── STABLE ◀┘
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.log.groups.protocol import (
    Answer,
    Code,
    GroupJoinRequest,
    GroupJoinResult,
    GroupState,
    MemberState,
    Peer,
    SyncResult,
)

__all__ = [
    "Answer",
    "Code",
    "ConsumerGroup",
    "GroupJoinRequest",
    "GroupJoinResult",
    "GroupState",
    "MemberState",
    "Peer",
    "SyncResult",
]
MOST_MEMBERS = 1_000


class ConsumerGroup:
    """The members and the state of one group. ``generation`` starts with the stored one, so that it never goes
    back."""

    def __init__(self, name: str, generation: int = 0) -> None:
        self.name = name
        self.state = GroupState.EMPTY
        self.generation = generation
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, MemberState] = {}
        self.kind = ""
        self._instances: dict[str, str] = {}  # static name → current member
        self._rebalance_until = 0.0
        self._assigner: str | None = None  # the user of the leader that made the assignments

    def weights(self) -> dict[str, int]:
        """Return the bytes that the members take, by user. Assignments count for the user of the leader."""
        weights: dict[str, int] = {}
        for member in self.members.values():
            if (user := member.join.user) is not None:
                weights[user] = weights.get(user, 0) + member.weight
            if member.assignment and (user := self._assigner) is not None:
                weights[user] = weights.get(user, 0) + len(member.assignment)
        return weights

    def join(self, join: GroupJoinRequest, now: float) -> list[Answer]:
        refusal = self._join_refusal(join)
        if refusal is not Code.NONE:
            return [(join.member, GroupJoinResult(code=refusal))]
        self.kind = join.kind
        fenced, replaced = self._take_place(join)
        member = self.members.get(join.member)
        if member is None:
            member = self.members[join.member] = MemberState(join, now)
            changed = True
        else:
            changed = self.state is not GroupState.STABLE or self._changes(member, join, replaced)
            member.accept(join)
            member.alive_until = now + join.session_timeout
        if not changed:  # a repeated join
            return [*fenced, (join.member, self._joined(join.member, assigned=replaced))]
        member.joining = True
        return [*fenced, *self._prepare(now), *self._complete_when_all_joined(now)]

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes],
        now: float,
        instance: str | None = None,
    ) -> list[Answer]:
        code = self._fence(member_id, generation, instance)
        if code is not Code.NONE:
            return [(member_id, SyncResult(code))]
        member = self.members[member_id]
        member.alive_until = now + member.join.session_timeout
        if self.state is GroupState.PREPARING:
            member.joining = False  # the member has to join again, or its session ends
            return [(member_id, SyncResult(Code.REBALANCE_IN_PROGRESS))]
        if self.state is GroupState.STABLE:
            return [(member_id, SyncResult(assignment=member.assignment))]
        member.syncing = True
        if member_id != self.leader:
            return []
        for name, other in self.members.items():
            other.assignment = assignments.get(name, b"")
        self._assigner = member.join.user
        self.state = GroupState.STABLE
        return self._answer_syncs()

    def heartbeat(
        self, member_id: str, generation: int, now: float, instance: str | None = None
    ) -> Code:
        code = self._fence(member_id, generation, instance)
        if code is not Code.NONE:
            return code
        member = self.members[member_id]
        member.alive_until = now + member.join.session_timeout
        return Code.REBALANCE_IN_PROGRESS if self.state is GroupState.PREPARING else Code.NONE

    def leave(self, member_id: str, now: float) -> list[Answer]:
        if member_id not in self.members:
            return []
        return self._remove([member_id], now)

    def holder(self, instance: str) -> str | None:
        """Return the member that has this static name now."""
        return self._instances.get(instance)

    def may_commit(self, member_id: str, generation: int, instance: str | None = None) -> Code:
        """Return NONE if a member may commit, else why not.

        A commit of an older generation is refused, because its partitions may have another owner. A commit without
        a member is allowed while the group has none (Kafka's simple consumers and tools)."""
        if generation < 0 and self.state is GroupState.EMPTY:
            return Code.NONE
        code = self._fence(member_id, generation, instance)
        if code is Code.NONE and self.state is GroupState.COMPLETING:
            return Code.REBALANCE_IN_PROGRESS
        return code

    def tick(self, now: float) -> list[Answer]:
        """Remove members whose session is over, and complete a rebalance whose time is up. Return the answers."""
        answers: list[Answer] = []
        silent = [
            name
            for name, member in self.members.items()
            if member.alive_until <= now and not (member.joining or member.syncing)
        ]
        if silent:
            answers += self._remove(silent, now)
        if self.state is GroupState.PREPARING and self._rebalance_until <= now:
            late = [name for name, member in self.members.items() if not member.joining]
            for name in late:
                self._forget(name)
            answers += self._complete_when_all_joined(now)
        return answers

    def next_tick(self) -> float | None:
        """Return when ``tick`` must be called at the latest, or None for never."""
        times = [m.alive_until for m in self.members.values() if not (m.joining or m.syncing)]
        if self.state is GroupState.PREPARING:
            times.append(self._rebalance_until)
        return min(times, default=None)

    def _join_refusal(self, join: GroupJoinRequest) -> Code:
        if self.state is GroupState.DEAD:
            return Code.COORDINATOR_NOT_AVAILABLE
        if join.session_timeout <= 0:
            return Code.INVALID_SESSION_TIMEOUT
        holder = self._instances.get(join.instance or "")
        known = self.members.get(join.member)
        if known is not None and known.join.instance != join.instance:
            return Code.FENCED_INSTANCE
        if known is None and join.returning:
            return Code.FENCED_INSTANCE if holder else Code.UNKNOWN_MEMBER
        others = [m for name, m in self.members.items() if name not in (join.member, holder)]
        if len(others) >= MOST_MEMBERS:
            return Code.GROUP_FULL
        if others and join.kind != self.kind:
            return Code.INCONSISTENT_PROTOCOL
        if not any(all(m.supports(name) for m in others) for name, _ in join.protocols):
            return Code.INCONSISTENT_PROTOCOL
        return Code.NONE

    def _take_place(self, join: GroupJoinRequest) -> tuple[list[Answer], bool]:
        """Let a member with a static name replace its predecessor and get its assignment.

        Returns:
            The answers to the fenced predecessor, and whether there was one.
        """
        if join.instance is None:
            return [], False
        before = self._instances.get(join.instance)
        self._instances[join.instance] = join.member
        if before is None or before == join.member:
            return [], False
        fenced = self.members[before].answer_pending(before, Code.FENCED_INSTANCE)
        self.members = {
            join.member if name == before else name: member for name, member in self.members.items()
        }
        if self.leader == before:
            self.leader = join.member
        return fenced, True

    def _changes(self, member: MemberState, join: GroupJoinRequest, replaced: bool) -> bool:
        """Return True if this join of a stable group starts a rebalance. A repeated join of the group's leader
        does, for example."""
        leads = join.member == self.leader and not replaced
        return leads or member.join.protocols != join.protocols

    def _fence(self, member_id: str, generation: int, instance: str | None) -> Code:
        if self.state is GroupState.DEAD:
            return Code.COORDINATOR_NOT_AVAILABLE
        if instance is not None and self._instances.get(instance, member_id) != member_id:
            return Code.FENCED_INSTANCE
        if member_id not in self.members:
            return Code.UNKNOWN_MEMBER
        if generation != self.generation:
            return Code.ILLEGAL_GENERATION
        return Code.NONE

    def _prepare(self, now: float) -> list[Answer]:
        """Start a rebalance, unless one is in progress. Members with a pending sync must join again."""
        if self.state is GroupState.PREPARING:
            return []
        answers: list[Answer] = []
        for name, member in self.members.items():
            if member.syncing:
                member.syncing = False
                answers.append((name, SyncResult(Code.REBALANCE_IN_PROGRESS)))
        self.state = GroupState.PREPARING
        longest = max(member.join.rebalance_timeout for member in self.members.values())
        self._rebalance_until = now + longest
        return answers

    def _complete_when_all_joined(self, now: float) -> list[Answer]:
        if self.state is not GroupState.PREPARING:
            return []
        if not self.members:
            self.state, self.leader, self.protocol = GroupState.EMPTY, "", ""
            self.generation += 1
            return []
        if not all(member.joining for member in self.members.values()):
            return []
        self.state = GroupState.COMPLETING
        self.generation += 1
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        self.protocol = self._elect()
        for member in self.members.values():
            member.joining = False
            member.assignment = b""
            member.alive_until = now + member.join.session_timeout
        return [(name, self._joined(name)) for name in self.members]

    def _elect(self) -> str:
        """Return the assignment strategy that all members support and most prefer."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(
                name
                for name, _ in member.join.protocols
                if all(other.supports(name) for other in self.members.values())
            )
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _joined(self, member_id: str, *, assigned: bool = False) -> GroupJoinResult:
        leads = member_id == self.leader
        return GroupJoinResult(
            generation=self.generation,
            kind=self.kind,
            protocol=self.protocol,
            leader=self.leader,
            peers=self._roster() if leads else (),
            assigned=assigned and leads,
        )

    def _roster(self) -> tuple[Peer, ...]:
        return tuple(
            Peer(name, member.metadata(self.protocol), member.join.instance)
            for name, member in self.members.items()
        )

    def _answer_syncs(self) -> list[Answer]:
        waiting = [(name, member) for name, member in self.members.items() if member.syncing]
        for _, member in waiting:
            member.syncing = False
        return [(name, SyncResult(assignment=member.assignment)) for name, member in waiting]

    def _remove(self, names: Sequence[str], now: float) -> list[Answer]:
        answers: list[Answer] = []
        for name in names:
            answers += self._forget(name).answer_pending(name, Code.UNKNOWN_MEMBER)
        if not self.members:
            self.state = GroupState.PREPARING
        else:
            answers += self._prepare(now)
        return answers + self._complete_when_all_joined(now)

    def _forget(self, name: str) -> MemberState:
        member = self.members.pop(name)
        if self._instances.get(member.join.instance or "") == name:
            del self._instances[member.join.instance or ""]
        return member
