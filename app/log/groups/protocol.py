"""Requests and answers of group members, as in Kafka's classic group protocol."""

from __future__ import annotations

import enum

import msgspec

MEMBER = 1_024  # approximate bytes of a member without its metadata


class GroupState(enum.Enum):
    """The states of a group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Code(enum.Enum):
    """Kafka's error codes, by their numbers."""

    NONE = 0
    METADATA_TOO_LARGE = 12
    COORDINATOR_NOT_AVAILABLE = 15
    ILLEGAL_GENERATION = 22
    INCONSISTENT_PROTOCOL = 23
    UNKNOWN_MEMBER = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    POLICY_VIOLATION = 44
    GROUP_FULL = 81
    FENCED_INSTANCE = 82


class GroupJoinRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to join a group. Times are in seconds.

    ``instance`` is a static name that outlives the process (KIP-345); the member that joins with it replaces its
    predecessor. ``returning`` is True for a member that was in the group before, which is refused if it is unknown.
    ``protocols`` are the member's assignment strategies, best first, with their metadata.

    ``user`` is the user whose share of memory the member takes. It is a user of a Kafka listener, "" for clients
    without one, or None for Skybridge's own workers. ``owner`` is the user that creates the group if it is new, or
    ""."""

    member: str
    instance: str | None = None
    returning: bool = False
    client: str = ""
    host: str = ""
    kind: str = "consumer"
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout: float
    rebalance_timeout: float
    user: str | None = None
    owner: str = ""

    @property
    def weight(self) -> int:
        """Return the approximate bytes that the member takes in memory."""
        size = sum(len(name) + len(metadata) for name, metadata in self.protocols)
        return MEMBER + size + len(self.member) + len(self.client)


class Peer(msgspec.Struct, frozen=True):
    """A member as the leader sees it."""

    member: str
    metadata: bytes
    instance: str | None = None


class GroupJoinResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a join.

    ``peers`` are the members. Only the leader gets this list, because only the leader assigns. ``assigned`` is True
    if the leader need not assign, because nothing has changed."""

    code: Code = Code.NONE
    generation: int = -1
    kind: str = ""
    protocol: str = ""
    leader: str = ""
    peers: tuple[Peer, ...] = ()
    assigned: bool = False

    @property
    def members(self) -> tuple[tuple[str, bytes], ...]:
        """Return the names and metadata of the members."""
        return tuple((peer.member, peer.metadata) for peer in self.peers)


class SyncResult(msgspec.Struct, frozen=True):
    """The answer to a sync, with the member's assignment."""

    code: Code = Code.NONE
    assignment: bytes = b""


Answer = tuple[str, GroupJoinResult | SyncResult]
"""The name of a member, and the answer to its pending request."""


class MemberState:
    """A member of a group, with its pending requests."""

    __slots__ = ("alive_until", "assignment", "join", "joining", "syncing", "weight")

    def __init__(self, join: GroupJoinRequest, now: float) -> None:
        self.accept(join)
        self.joining = False  # a join is pending
        self.syncing = False  # a sync is pending
        self.assignment = b""
        self.alive_until = now + join.session_timeout

    def accept(self, join: GroupJoinRequest) -> None:
        """Replace the member's description by this join."""
        self.join = join
        self.weight = 0 if join.user is None else join.weight

    def supports(self, protocol: str) -> bool:
        return any(name == protocol for name, _ in self.join.protocols)

    def metadata(self, protocol: str) -> bytes:
        """Return the metadata for an assignment strategy, empty if the member does not support it or none is
        elected."""
        return next((data for name, data in self.join.protocols if name == protocol), b"")

    def answer_pending(self, name: str, code: Code) -> list[Answer]:
        """Answer the member's pending requests with an error code."""
        answers: list[Answer] = []
        if self.joining:
            answers.append((name, GroupJoinResult(code=code)))
        if self.syncing:
            answers.append((name, SyncResult(code)))
        self.joining = self.syncing = False
        return answers
