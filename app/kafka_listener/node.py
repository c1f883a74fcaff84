"""What every handler acts on: the one node of this cluster, and the session of one connection."""

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
from app.kafka_listener.guesses import Guesses
from app.kafka_listener.room import Room, Unread
from app.log.engine import Engine
from app.log.groups.coordinator import Coordinator
from app.telemetry import Counters

NODE_ID = 0  # the one that leads everything
LEADER_EPOCH = 0  # nobody else ever led
PROBES = 3  # that a peer which is gone leaves without an answer


class Gate(Protocol):
    """What may enter a topic (``validate: cloudevents``)."""

    def guards(self, topic: str) -> bool:
        """Whether records of this topic are looked at, at all."""

    def refusals(self, topic: str, records: Sequence[Record]) -> Mapping[int, str]:
        """Index of a record that may not enter, to why; empty for a topic that takes anything."""


class Principal(NamedTuple):
    """A user. ``proof``: a digest of the password, so that another password ends its sessions. ``caller``: the
    producer that it is; None for a user of the old form, who has every right."""

    name: str
    proof: bytes
    access: KafkaAccess = EVERY_RIGHT
    caller: EventSender | None = None

    @property
    def limits(self) -> Rights | None:
        """What each of its events is held against."""
        rights = None if self.caller is None else self.caller.rights
        if rights is None or not (rights.limits_events or rights.limits_keys):
            return None
        return rights


class Logins(Protocol):
    """The users, and their mechanisms (``sasl``)."""

    mechanisms: tuple[str, ...]

    def begin(self, mechanism: str) -> Any: ...

    def principal(self, name: str) -> Principal:
        """Of a name that is proven."""

    def holds(self, principal: Principal) -> Principal | None:
        """The same user as it is known now; None where it has gone, or has another password."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``host``, ``port``     where it listens; 0 takes a free port.
    ``advertised``        host and port that clients are told to come to; None: where it listens.
    ``max_frame``         bytes of one request; a larger one ends its connection. Its compressed batches
                          become no more than that together.
    ``receiving``         bytes of unfinished requests over all connections, and as many that compressed
                          batches become; beyond them reading waits. As many of answers that clients have
                          not taken; beyond them a Fetch gets few. Of each, one user has a share.
    ``connections``       open at once, handshakes of TLS counted; one more is closed.
    ``in_work``           requests of one connection in work before its reading pauses.
    ``handshake_timeout`` seconds for a TLS hand-shake.
    ``frame_timeout``     seconds from a frame's first byte to its last, from a connection to its login, and for
                          an answer to be taken.
    ``progress_timeout``  seconds in which something of an unfinished frame has to arrive.
    ``idle_timeout``      seconds without a request after which a connection is closed.
    ``create_topics``     topics come to be by being asked for (Metadata, Produce).
    ``max_partitions``    of one topic that a client makes or lets grow.
    ``max_batch``         bytes of one batch of records, compressed and not.
    ``max_answer``        bytes of records in one answer, whatever the client would take.
    ``max_wait``          seconds that a Fetch may wait, whatever the client would.
    ``denial``            seconds until a failed login is told.
    ``session_timeouts``  seconds, the shortest and the longest that a member of a group may ask for.
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
        """Bytes of ``receiving`` that one user may hold: one request of the largest size at least."""
        return max(self.max_frame, share_of(self.receiving))


class Node(msgspec.Struct, kw_only=True):
    """``cluster``: its id, kept with the log. ``address``: what clients are told, set when it listens.
    ``logins``: who may come; None: everybody. ``own_groups``: how the groups of subscriptions begin, which
    no client may use; "" for none.
    ``counters``: ``kafka_connections(outcome)``, ``kafka_requests(api)``, ``kafka_refused_frames``,
    ``kafka_records(direction)``. ``refused_connections``, ``refused_frames``: of this listener alone."""

    engine: Engine
    gate: Gate
    clock: Clock
    settings: Settings
    cluster: str
    counters: Counters
    logins: Logins | None = None
    own_groups: str = ""
    address: tuple[str, int] = ("", 0)
    refused_connections: int = 0
    refused_frames: int = 0
    guesses: Guesses = msgspec.field(default_factory=Guesses)

    @property
    def coordinator(self) -> Coordinator:
        return self.engine.coordinator


class Session:
    """One connection. ``user``: who it is, once it has said so; None where nobody is asked. ``access``: its
    rights. ``name``: its user's, also when that has gone; "" for strangers, and where nobody is asked.
    ``address``: the client's, as its wrong passwords are counted.

    ``ending``  is set when no answer will be waited for, or the service is to leave: who waits for long
                answers now; ``waiting`` are set with it.
    ``turn``    how many Fetches there were: they take turns in who comes first.
    ``lane``    keeps what a connection produces in order, also where a batch is read in a thread.
    ``expanded``  the room for what compressed batches become, that of all connections.
    ``unread``    what all connections have of answers that are not taken.
    ``login``   what is under way of a login (``sasl``); ``denied`` when one came to nothing.
    """

    def __init__(
        self,
        peer: str,
        expanded: Room,
        unread: Unread,
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
        self._held = 0  # of ``unread``
        self._holder = ""  # whose share that is
        self.user: Principal | None = None
        self.authenticated = authenticated
        self.ending = asyncio.Event()
        self.waiting: set[asyncio.Event] = set()
        self.turn = 0
        self.lane = asyncio.Lock()
        self.login: Any = None
        self.denied = False

    def hold(self, size: int) -> None:
        """So many bytes more, or fewer, are in the answer that is being made."""
        if not self._held:
            self._holder = self.name
        self._held += size
        self.unread.hold(size, self._holder)

    def taken(self) -> None:
        """The client has taken its answer, or there is nobody to take it."""
        self.hold(-self._held)

    def debt(self, now: float) -> float:
        """Seconds that its producer is beyond its quota."""
        caller = None if self.user is None else self.user.caller
        return 0.0 if caller is None else caller.debt(now)

    def notice_within(self, seconds: float) -> None:
        """Notice the end of the connection within so many seconds, also where its peer does not say it: a member
        that waits to join sends nothing by which its session could be seen to be over."""
        if self._socket is None:
            return
        options = {"TCP_KEEPIDLE": seconds / 3, "TCP_KEEPINTVL": seconds / 6}
        with suppress(OSError):  # it has ended
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in options.items():
                self._socket.setsockopt(
                    socket.IPPROTO_TCP, getattr(socket, name), max(1, int(value))
                )
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)

    def log_in(self, user: Principal) -> None:
        """Act for ``user`` from now on."""
        self.user, self.name, self.authenticated = user, user.name, True

    @property
    def access(self) -> KafkaAccess:
        return EVERY_RIGHT if self.user is None else self.user.access

    @property
    def owner(self) -> str:
        """Return the user that owns the topics and groups which this session creates; "" for one that may do
        everything, so that no share bounds it."""
        return "" if self.access is EVERY_RIGHT else self.name

    def end(self) -> None:
        for each in (self.ending, *self.waiting):
            each.set()
