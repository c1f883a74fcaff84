"""Kafka's classic group protocol for one group, as a pure state machine.

Time is an argument (seconds of a clock that never goes back). Answers that must wait, to a join
until everybody has joined, to a sync until the leader has assigned, come back as a list of
``(member, answer)`` from whichever call or ``tick`` made them due. The in-process workers call it
today; a Kafka listener can put the same answers on the wire.

::

    EMPTY ── first join ──▶ PREPARING ── all joined, or time is up ──▶ COMPLETING
      ▲                       ▲   ▲                                        │ leader's sync
      └── last member gone ───┘   └── join, leave, session over ── STABLE ◀┘
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import msgspec


class State(enum.Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Code(enum.Enum):
    """Kafka's error codes, by its numbers."""

    NONE = 0
    ILLEGAL_GENERATION = 22
    INCONSISTENT_PROTOCOL = 23
    UNKNOWN_MEMBER = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    COORDINATOR_NOT_AVAILABLE = 15


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """``protocols``: assignment strategies the member knows, best first, each with its metadata.
    Times in seconds."""

    member: str
    client: str = ""
    kind: str = "consumer"
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout: float
    rebalance_timeout: float


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """``members`` is filled for the leader only, which assigns."""

    code: Code = Code.NONE
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    members: tuple[tuple[str, bytes], ...] = ()


class Synced(msgspec.Struct, frozen=True):
    code: Code = Code.NONE
    assignment: bytes = b""


Answer = tuple[str, Joined | Synced]
"""The member that is told, and what."""


class Member:
    __slots__ = ("alive_until", "assignment", "join", "joining", "syncing")

    def __init__(self, join: Join, now: float) -> None:
        self.join = join
        self.joining = False  # waits for the answer to a join
        self.syncing = False  # waits for the answer to a sync
        self.assignment = b""
        self.alive_until = now + join.session_timeout

    def supports(self, protocol: str) -> bool:
        return any(name == protocol for name, _ in self.join.protocols)

    def metadata(self, protocol: str) -> bytes:
        return next(data for name, data in self.join.protocols if name == protocol)


class Group:
    """One group. ``generation`` starts where it was left, so that it never goes back."""

    def __init__(self, name: str, generation: int = 0) -> None:
        self.name = name
        self.state = State.EMPTY
        self.generation = generation
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, Member] = {}
        self._kind = ""
        self._rebalance_until = 0.0

    def join(self, join: Join, now: float) -> list[Answer]:
        refusal = self._join_refusal(join)
        if refusal is not Code.NONE:
            return [(join.member, Joined(code=refusal))]
        self._kind = join.kind
        member = self.members.get(join.member)
        if member is None:
            member = self.members[join.member] = Member(join, now)
            changed = True
        else:
            changed = self.state is not State.STABLE or self._changes(member, join)
            member.join = join
            member.alive_until = now + join.session_timeout
        if not changed:  # a follower asked again for what it has
            return [(join.member, self._joined(join.member))]
        member.joining = True
        return [*self._prepare(now), *self._complete_when_all_joined(now)]

    def sync(
        self, member_id: str, generation: int, assignments: Mapping[str, bytes], now: float
    ) -> list[Answer]:
        code = self._fence(member_id, generation)
        if code is not Code.NONE:
            return [(member_id, Synced(code))]
        if self.state is State.PREPARING:
            return [(member_id, Synced(Code.REBALANCE_IN_PROGRESS))]
        member = self.members[member_id]
        member.alive_until = now + member.join.session_timeout
        if self.state is State.STABLE:
            return [(member_id, Synced(assignment=member.assignment))]
        member.syncing = True
        if member_id != self.leader:
            return []
        for name, other in self.members.items():
            other.assignment = assignments.get(name, b"")
        self.state = State.STABLE
        return self._answer_syncs()

    def heartbeat(self, member_id: str, generation: int, now: float) -> Code:
        code = self._fence(member_id, generation)
        if code is not Code.NONE:
            return code
        member = self.members[member_id]
        member.alive_until = now + member.join.session_timeout
        return Code.REBALANCE_IN_PROGRESS if self.state is State.PREPARING else Code.NONE

    def leave(self, member_id: str, now: float) -> list[Answer]:
        if member_id not in self.members:
            return []
        return self._remove([member_id], now)

    def may_commit(self, member_id: str, generation: int) -> Code:
        """A commit of an older generation is refused: its partitions may be somebody else's. One
        without a member is let in while nobody is (Kafka's simple consumers and its tools)."""
        if generation < 0 and self.state is State.EMPTY:
            return Code.NONE
        code = self._fence(member_id, generation)
        if code is Code.NONE and self.state is State.COMPLETING:
            return Code.REBALANCE_IN_PROGRESS
        return code

    def tick(self, now: float) -> list[Answer]:
        """What time has made due: sessions that are over, a rebalance that waited long enough."""
        answers: list[Answer] = []
        silent = [
            name
            for name, member in self.members.items()
            if member.alive_until <= now and not (member.joining or member.syncing)
        ]
        if silent:
            answers += self._remove(silent, now)
        if self.state is State.PREPARING and self._rebalance_until <= now:
            late = [name for name, member in self.members.items() if not member.joining]
            for name in late:
                del self.members[name]
            answers += self._complete_when_all_joined(now)
        return answers

    def next_tick(self) -> float | None:
        """When ``tick`` has something to do at the latest; None: never."""
        times = [m.alive_until for m in self.members.values() if not (m.joining or m.syncing)]
        if self.state is State.PREPARING:
            times.append(self._rebalance_until)
        return min(times, default=None)

    def _join_refusal(self, join: Join) -> Code:
        if self.state is State.DEAD:
            return Code.COORDINATOR_NOT_AVAILABLE
        if join.session_timeout <= 0:
            return Code.INVALID_SESSION_TIMEOUT
        others = [member for name, member in self.members.items() if name != join.member]
        if others and join.kind != self._kind:
            return Code.INCONSISTENT_PROTOCOL
        if not any(all(m.supports(name) for m in others) for name, _ in join.protocols):
            return Code.INCONSISTENT_PROTOCOL
        return Code.NONE

    def _changes(self, member: Member, join: Join) -> bool:
        """Whether this join of a stable group makes it assign anew."""
        return join.member == self.leader or member.join.protocols != join.protocols

    def _fence(self, member_id: str, generation: int) -> Code:
        if self.state is State.DEAD:
            return Code.COORDINATOR_NOT_AVAILABLE
        if member_id not in self.members:
            return Code.UNKNOWN_MEMBER
        if generation != self.generation:
            return Code.ILLEGAL_GENERATION
        return Code.NONE

    def _prepare(self, now: float) -> list[Answer]:
        """Begin a rebalance, unless one has begun. Who waits for an assignment must join again."""
        if self.state is State.PREPARING:
            return []
        answers: list[Answer] = []
        for name, member in self.members.items():
            if member.syncing:
                member.syncing = False
                answers.append((name, Synced(Code.REBALANCE_IN_PROGRESS)))
        self.state = State.PREPARING
        longest = max(member.join.rebalance_timeout for member in self.members.values())
        self._rebalance_until = now + longest
        return answers

    def _complete_when_all_joined(self, now: float) -> list[Answer]:
        if self.state is not State.PREPARING:
            return []
        if not self.members:
            self.state, self.leader, self.protocol = State.EMPTY, "", ""
            self.generation += 1
            return []
        if not all(member.joining for member in self.members.values()):
            return []
        self.state = State.COMPLETING
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
        """The strategy that all know and most prefer."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(
                name
                for name, _ in member.join.protocols
                if all(other.supports(name) for other in self.members.values())
            )
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _joined(self, member_id: str) -> Joined:
        leads = member_id == self.leader
        return Joined(
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            members=self._roster() if leads else (),
        )

    def _roster(self) -> tuple[tuple[str, bytes], ...]:
        return tuple((name, m.metadata(self.protocol)) for name, m in self.members.items())

    def _answer_syncs(self) -> list[Answer]:
        waiting = [(name, member) for name, member in self.members.items() if member.syncing]
        for _, member in waiting:
            member.syncing = False
        return [(name, Synced(assignment=member.assignment)) for name, member in waiting]

    def _remove(self, names: Sequence[str], now: float) -> list[Answer]:
        answers: list[Answer] = []
        for name in names:
            member = self.members.pop(name)
            if member.joining:
                answers.append((name, Joined(code=Code.UNKNOWN_MEMBER)))
            if member.syncing:
                answers.append((name, Synced(Code.UNKNOWN_MEMBER)))
        if not self.members:
            self.state = State.PREPARING
        else:
            answers += self._prepare(now)
        return answers + self._complete_when_all_joined(now)
