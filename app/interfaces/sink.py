"""Where deliveries go: one attempt at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from app.bindings.record import Decoded, Header
from app.delivery.outcomes import AttemptOutcome
from app.delivery.request_batching import Piece
from app.interfaces.kept import HttpExchange
from app.model.message import Message


class Outgoing(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """One attempt: what the sink is to write in its own way and send.

    ``message``  as it came from its log: the record's key goes on as it is (K11).
    ``decoded``  the event in it; None for a record that is no CloudEvent and is to be copied.
    ``timeout``  seconds in total, answer included.
    ``lane``     the queue that it stands in: no other of it is under way.
    """

    message: Message
    decoded: Decoded | None
    timeout: float
    lane: bytes = b""


class SinkAnswer(msgspec.Struct, frozen=True):
    """What came back; of a broker, what HTTP would have answered. ``status`` None: none came; ``fault`` then says what happened.

    ``fault``        ``timeout``, ``dns``, ``connect``, ``tls``, ``reset``, ``blocked-address``,
                     ``bad-request`` (the request itself cannot be sent), ``unwritable`` (the event
                     cannot be written as it should be), ``token`` (no access token was granted),
                     ``no-consent`` (the handshake is required), ``proxy``, ``reply`` (the event that it
                     answered with could not be published), ``full`` and ``store`` (a queue to pull
                     from takes nothing now), or "".
    ``detail``       words of this side, which may be logged: nothing that the target said.
    ``unsent``       no byte of the request was sent, where ``fault`` alone does not say so: a time-out may
                     end a connection that is being made.
    ``retry_after``  the raw header value, unparsed.
    ``body``         what the target said, clipped to the response bound, without credentials of ours.
    ``hold``         seconds that the sink itself asks to be left alone, for ``detail``: it is not held
                     against the event.
    ``exchange``     the request to a webhook and its answer, as they may be shown; None where they are not kept, which
                     they are of a failure, or of all attempts.
    ``headers``      of a webhook's answer, as they came. ``cut``: its body goes on beyond the response bound, or
                     broke off.
    """

    status: int | None
    fault: str = ""
    detail: str = ""
    retry_after: str | None = None
    body: bytes = b""
    hold: float = 0.0
    headers: tuple[tuple[bytes, bytes], ...] = ()
    cut: bool = False
    exchange: HttpExchange | None = None
    unsent: bool = False
    outcomes: tuple[AttemptOutcome, ...] = ()
    """The outcome of each event of the request, or one outcome of all, by the target's own rules; empty: status and fault
    alone decide."""


Asking: TypeAlias = Coroutine[Any, Any, SinkAnswer]
"""What is awaited for an answer."""


def unwritable(why: str) -> SinkAnswer:
    """Of an event that cannot be written as its subscription wants: waiting will not change that."""
    return SinkAnswer(None, "unwritable", why)


async def answered(answer: SinkAnswer) -> SinkAnswer:
    """Where an answer is awaited that is known already."""
    return answer


class Sink(Protocol):
    """Sends one attempt. Holds no policy; never raises for what a target can do to it."""

    def send(self, outgoing: Outgoing) -> Asking: ...

    def pace(self) -> float:
        """Seconds until the target allows another attempt; 0 when it does now."""
        return 0.0

    def when_ready(self, ready: Callable[[], None]) -> None:  # noqa: ARG002 - most never call it
        """``ready`` is to be called where what the sink asked to be left alone for (``hold``) ends before
        its time."""
        return

    def queued(self) -> int:
        """Events that wait in it, as they were counted last; none where it sends them on."""
        return 0

    async def stop(self) -> None:
        """What is its own ends; what it was given is its giver's."""
        return


class JoiningSink(Sink, Protocol):
    """One that takes several events in one request (``batch``). ``send`` makes the same request of one."""

    def piece(self, outgoing: Outgoing) -> Piece | None:
        """The event as a part of such a request; None for one that has to go alone."""

    def room(self) -> int:
        """How many events such a request may have now; at least one."""
        return sys.maxsize

    async def send_together(
        self, pieces: Sequence[Any], within: float, beside: Sequence[Header] = ()
    ) -> SinkAnswer:
        """One answer for all of them, which ``piece`` made. ``within``: seconds in total. ``beside``: headers of the request, which
        are of no event."""
