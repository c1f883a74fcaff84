"""The state that every handler uses: the only node of this cluster, and the session of a
connection.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio.trsock import TransportSocket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import msgspec

from app.access.caller import EventSender
from app.access.quota import share_of
from app.access.rights import EVERY_RIGHT, KafkaAccess, Rights
from app.bindings.record import Record
from app.interfaces import Clock
from app.kafka_listener.guesses import LoginAttempts
from app.kafka_listener.refused_frames import RefusedFrames
from app.kafka_listener.room import ByteBudget, UnreadAnswers
from app.log.engine import LogEngine
from app.log.groups.coordinator import Coordinator
from app.telemetry import Counters

NODE_ID = 0  # the only node, which leads all partitions
LEADER_EPOCH = 0  # the leader never changes
KEEPALIVE_PROBES = 3  # unanswered TCP keepalive probes that end a connection


class RecordGate(Protocol):
    """The check of records that enter a topic (``validate: cloudevents``)."""

    def guards(self, topic: str) -> bool:
        """Return True if records of this topic are checked."""

    def refusals(self, topic: str, records: Sequence[Record]) -> Mapping[int, str]:
        """Return the reason for each record that may not enter the topic, by index. A topic without
        a check refuses none.
        """


class Principal(NamedTuple):
    """A user of the Kafka listener.

    ``proof`` is a digest of the password, so that a changed password ends the user's sessions.
    ``caller`` is the producer, or None for a user that is no producer and has every right.
    """

    name: str
    proof: bytes
    access: KafkaAccess = EVERY_RIGHT
    caller: EventSender | None = None

    @property
    def limits(self) -> Rights | None:
        """Return the rights that each event must satisfy, or None if they limit neither events nor
        keys.
        """
        rights = None if self.caller is None else self.caller.rights
        if rights is None or not (rights.limits_events or rights.limits_keys):
            return None
        return rights


class KafkaUsers(Protocol):
    """The users and their login mechanisms; implemented in ``sasl``."""

    mechanisms: tuple[str, ...]

    def begin(self, mechanism: str) -> Any:
        """Begin a login by this mechanism."""

    def principal(self, name: str) -> Principal:
        """Return the user of a name whose login has succeeded."""

    def holds(self, principal: Principal) -> Principal | None:
        """Return the user as the configuration has it now. Return None if the user was removed or
        has another password.
        """


class KafkaListenerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a Kafka listener. Times are in seconds.

    Attributes:
        host: the address.
        port: the port; 0 takes a free one.
        advertised: host and port that clients must use; None for the address of the listener.
        max_frame: largest request in bytes. A larger request ends its connection. The bound holds
            for compressed batches after decompression, too.
        receiving: most bytes of unfinished requests over all connections. Above this bound, reading
            waits. The same bound holds for decompressed batches and for unread responses. One user
            has a share of each.
        connections: most open connections, including TLS handshakes. A further connection is
            closed.
        in_work: most requests of a connection in work before reading pauses.
        handshake_timeout: limit of a TLS handshake.
        frame_timeout: limit from the first byte of a request to its last, from a connection to its
            login, and for a response to be read.
        progress_timeout: time in which some bytes of an unfinished request must arrive.
        idle_timeout: time without a request after which a connection is closed.
        create_topics: whether a request for an unknown topic creates it (Metadata, Produce).
        max_partitions: most partitions of a topic that a client creates or extends.
        max_batch: largest batch in bytes, before and after decompression.
        max_answer: most bytes of records in one response.
        max_wait: longest wait of a Fetch.
        denial: delay before a failed login is answered.
        session_timeouts: the shortest and longest session time-out of a group member.
    """

    host: str = "127.0.0.1"
    port: int = 19092
    advertised: tuple[str, int] | None = None
    max_frame: int = 64 << 20
    receiving: int = 256 << 20
    connections: int = 1_000
    in_work: int = 16
    handshake_timeout: float = 10.0
    frame_timeout: float = 30.0
    progress_timeout: float = 5.0
    idle_timeout: float = 600.0
    create_topics: bool = True
    max_partitions: int = 1_000
    max_batch: int = 16 << 20
    max_answer: int = 4 << 20
    max_wait: float = 60.0
    denial: float = 1.0
    session_timeouts: tuple[float, float] = (6.0, 1_800.0)

    @property
    def share(self) -> int:
        """Return the bytes of ``receiving`` that one user may hold: at least one request of the
        largest size.
        """
        return max(self.max_frame, share_of(self.receiving))


class KafkaNode(msgspec.Struct, kw_only=True):
    """The only node of the cluster.

    Attributes:
        engine: the embedded log.
        gate: checks records that enter a topic.
        clock: the clock.
        settings: the settings of the listener.
        cluster: the cluster id, stored with the log.
        counters: counts ``kafka_connections(outcome)``, ``kafka_requests(api)``,
            ``kafka_refused_frames`` and ``kafka_records(direction)``.
        logins: the users; None if no login is needed.
        own_groups: prefix of the groups of subscriptions, which no client may use; "" for none.
        address: host and port for clients, set when the listener starts.
        refused_connections: refused connections of this listener.
        refused_frames: refused requests of this listener, which are logged rarely.
        guesses: the login attempts of each address.
    """

    engine: LogEngine
    gate: RecordGate
    clock: Clock
    settings: KafkaListenerSettings
    cluster: str
    counters: Counters
    logins: KafkaUsers | None = None
    own_groups: str = ""
    address: tuple[str, int] = ("", 0)
    refused_connections: int = 0
    refused_frames: RefusedFrames = msgspec.field(default_factory=RefusedFrames)
    guesses: LoginAttempts = msgspec.field(default_factory=LoginAttempts)

    @property
    def coordinator(self) -> Coordinator:
        return self.engine.coordinator


class KafkaSession:
    """The session of one connection.

    Attributes:
        peer: address and port of the client, for the log.
        address: network of the client, by which wrong passwords are counted.
        name: name of the user, also after its removal; "" before a login and if no login is needed.
        user: the user; None before a login and if no login is needed.
        authenticated: whether the client may send requests.
        expanded: budget for decompressed batches, shared by all connections.
        unread: unread responses of all connections.
        ending: set when no response will be awaited, or the service stops.
        waiting: events of requests that wait, set together with ``ending``.
        turn: number of Fetch requests, by which the first partition rotates.
        lane: lock that keeps the batches of a connection in order, also when a thread reads one.
        login: the login under way.
        denied: whether a login has failed.
    """

    def __init__(
        self,
        peer: str,
        expanded: ByteBudget,
        unread: UnreadAnswers,
        *,
        authenticated: bool = True,
        address: str = "",
        connected: TransportSocket | None = None,
    ) -> None:
        self.peer = peer
        self.address = address
        self._socket = connected
        self.name = ""
        self.expanded = expanded
        self.unread = unread
        self._held = 0  # bytes counted in ``unread``
        self._holder = ""  # the user whose share those bytes use
        self.user: Principal | None = None
        self.authenticated = authenticated
        self.ending = asyncio.Event()
        self.waiting: set[asyncio.Event] = set()
        self.turn = 0
        self.lane = asyncio.Lock()
        self.login: Any = None
        self.denied = False

    def hold(self, size: int) -> None:
        """Count ``size`` more bytes, or fewer if negative, in the response that is being made."""
        if not self._held:
            self._holder = self.name
        self._held += size
        self.unread.hold(size, self._holder)

    def taken(self) -> None:
        """Stop counting the response, because the client has read it or has left."""
        self.hold(-self._held)

    def debt(self, now: float) -> float:
        """Return the seconds until the producer is within its quota again."""
        caller = None if self.user is None else self.user.caller
        return 0.0 if caller is None else caller.debt(now)

    def notice_within(self, seconds: float) -> None:
        """Detect a lost connection within so many seconds, by TCP keepalive.

        A member that waits to join sends nothing, so its session time-out could not detect the
        loss.
        """
        if self._socket is None:
            return
        options = {"TCP_KEEPIDLE": seconds / 3, "TCP_KEEPINTVL": seconds / 6}
        with suppress(OSError):  # the connection has ended
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in options.items():
                self._socket.setsockopt(
                    socket.IPPROTO_TCP, getattr(socket, name), max(1, int(value))
                )
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)

    def log_in(self, user: Principal) -> None:
        """Use the rights of ``user`` from now on."""
        self.user, self.name, self.authenticated = user, user.name, True

    @property
    def access(self) -> KafkaAccess:
        """Return the rights of this session."""
        return EVERY_RIGHT if self.user is None else self.user.access

    @property
    def owner(self) -> str:
        """Return the user that owns the topics and groups which this session creates.

        Return "" for a user with every right, so that no share bounds what it creates.
        """
        return "" if self.access is EVERY_RIGHT else self.name

    def end(self) -> None:
        """Set ``ending``, and wake the requests that wait."""
        for each in (self.ending, *self.waiting):
            each.set()
