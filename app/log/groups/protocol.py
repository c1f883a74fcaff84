"""What members of a group ask and are told, in the words of Kafka's classic group protocol."""

from __future__ import annotations

import enum

import msgspec

MEMBER = 1_024  # bytes of a member without its metadata, about


class State(enum.Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Code(enum.Enum):
    """Kafka's error codes, by its numbers."""

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


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """``instance``   a name that outlives the process (KIP-345): the member that joins with it takes the place.
    ``returning``  the member has been let in before: it is refused where nobody knows it.
    ``protocols``  assignment strategies the member knows, best first, each with its metadata.
    ``user``       whose share its bytes take: a user of a Kafka listener, "" for clients that are no users; None
                   for Skybridge's own workers, which take none.
    ``owner``      the user that creates the group if it is new; "" for none.
    Times in seconds."""

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
        """Return the bytes that the member takes in memory, about."""
        told = sum(len(name) + len(metadata) for name, metadata in self.protocols)
        return MEMBER + told + len(self.member) + len(self.client)


class Peer(msgspec.Struct, frozen=True):
    """A member as the leader sees it."""

    member: str
    metadata: bytes
    instance: str | None = None


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """``peers`` is filled for the leader only, which assigns; ``assigned``: it need not, for nothing has
    changed."""

    code: Code = Code.NONE
    generation: int = -1
    kind: str = ""
    protocol: str = ""
    leader: str = ""
    peers: tuple[Peer, ...] = ()
    assigned: bool = False

    @property
    def members(self) -> tuple[tuple[str, bytes], ...]:
        return tuple((peer.member, peer.metadata) for peer in self.peers)


class Synced(msgspec.Struct, frozen=True):
    code: Code = Code.NONE
    assignment: bytes = b""


Answer = tuple[str, Joined | Synced]
"""The member that is told, and what."""


class Member:
    __slots__ = ("alive_until", "assignment", "join", "joining", "syncing", "weight")

    def __init__(self, join: Join, now: float) -> None:
        self.accept(join)
        self.joining = False  # waits for the answer to a join
        self.syncing = False  # waits for the answer to a sync
        self.assignment = b""
        self.alive_until = now + join.session_timeout

    def accept(self, join: Join) -> None:
        """Know the member by this join from now on."""
        self.join = join
        self.weight = 0 if join.user is None else join.weight

    def supports(self, protocol: str) -> bool:
        return any(name == protocol for name, _ in self.join.protocols)

    def metadata(self, protocol: str) -> bytes:
        """Empty for a protocol that it does not know, or while none is elected."""
        return next((data for name, data in self.join.protocols if name == protocol), b"")

    def drop_questions(self, name: str, code: Code) -> list[Answer]:
        """What it waits for is answered with ``code``."""
        answers: list[Answer] = []
        if self.joining:
            answers.append((name, Joined(code=code)))
        if self.syncing:
            answers.append((name, Synced(code)))
        self.joining = self.syncing = False
        return answers
