"""The interface of sinks, to which events are delivered in single attempts."""

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


class DeliveryRequest(
    msgspec.Struct, frozen=True, gc=False
):  # an instance can be in no reference cycle
    """The request of one attempt, which the sink writes in its own form.

    Attributes:
        message: The message from its log. The record key is kept.
        decoded: The event. None for a record that is no CloudEvent and is copied.
        timeout: The seconds for the whole attempt, with its answer.
        lane: The ordering key of the event (its lane). No other attempt with this key is running.
    """

    message: Message
    decoded: Decoded | None
    timeout: float
    lane: bytes = b""


class SinkAnswer(msgspec.Struct, frozen=True):
    """The result of one attempt. The result of a broker is expressed as an HTTP status.

    Without a status, ``fault`` is ``timeout``, ``dns``, ``connect``, ``tls``, ``reset``, ``blocked-address``
    or ``proxy``. Skybridge's own faults are ``bad-request`` (the request cannot be sent) and ``unwritable``
    (the event cannot be encoded). Others are ``token`` (no access token), ``no-consent`` (the handshake is
    required) and ``reply`` (the reply event could not be published). A pull queue that accepts nothing gives
    ``full`` or ``store``.

    Attributes:
        status: The status of the answer. None if none came.
        fault: The code of the failure, or "".
        detail: The failure in words of Skybridge, safe to log, without text of the target.
        retry_after: The raw header Retry-After.
        body: The body of the answer, shortened to the response limit, without Skybridge's credentials.
        hold: The seconds that the sink asks to wait. Such a wait does not count as a failure of the event.
        headers: The headers of a webhook's answer.
        cut: True if the answer's body was longer than the response limit, or broke off.
        exchange: The request to a webhook and its answer. None if they are not stored.
        unsent: True if no byte of the request was sent, for example if the time-out came while connecting.
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
    """The outcome of each event of the request, or one outcome for all events, by the target's own rules. If it is
        empty, status and fault alone decide."""


PendingAnswer: TypeAlias = Coroutine[Any, Any, SinkAnswer]
"""An awaitable answer of a sink."""


def unwritable(why: str) -> SinkAnswer:
    """Return the answer for an event that cannot be encoded as its subscription demands. A retry would not help."""
    return SinkAnswer(None, "unwritable", why)


async def known_answer(answer: SinkAnswer) -> SinkAnswer:
    """Return ``answer`` unchanged. This coroutine serves callers that await an answer."""
    return answer


AnswerCallback: TypeAlias = Callable[[SinkAnswer], None]
"""A function that receives the answer of an attempt. It does not raise."""


class BegunAttempt(Protocol):
    """An attempt that was begun without a task, until its answer has been reported."""

    def abort(self) -> None:
        """End the attempt. Its answer is not reported."""


class Sink(Protocol):
    """A target of deliveries. It decides no policy, and never raises for anything that a target can do."""

    begins: bool = False
    """True if ``begin`` can begin attempts."""

    def send(self, outgoing: DeliveryRequest) -> PendingAnswer:
        """Return the coroutine that makes one attempt."""

    def begin(
        self,
        decoded: Decoded | None,  # noqa: ARG002
        within: float,  # noqa: ARG002
        on_answer: AnswerCallback,  # noqa: ARG002
    ) -> BegunAttempt | None:
        """Begin one attempt without a task, which costs less than ``send``.

        Args:
            decoded: The event. None for a record that is no CloudEvent.
            within: The seconds for the whole attempt, with its answer.
            on_answer: Called once with the answer, but not before this returns.

        Returns:
            The attempt. None if it needs ``send``, for example because a connection must be opened first.
        """
        return None

    def pace(self) -> float:
        """Return the seconds until the target's rate permits another attempt, or 0."""
        return 0.0

    def when_ready(self, ready: Callable[[], None]) -> None:  # noqa: ARG002 - most never call it
        """Register a function to call if the wait that the sink requested (``hold``) ends early."""
        return

    def queued(self) -> int:
        """Return the number of events that wait in the sink, as last counted. Only a pull queue has any."""
        return 0

    async def stop(self) -> None:
        """Close the connections and tasks that the sink created itself."""
        return


class BatchSink(Sink, Protocol):
    """A sink that can send several events in one request (setting ``batch``). Its ``send`` makes a request of the
    same kind with one event."""

    def piece(self, outgoing: DeliveryRequest) -> Piece | None:
        """Return the event as a part of a batch request, or None if it must be sent alone."""

    def room(self) -> int:
        """Return how many events a batch request may have now, at least one."""
        return sys.maxsize

    async def send_together(
        self, pieces: Sequence[Any], within: float, beside: Sequence[Header] = ()
    ) -> SinkAnswer:
        """Send one request with several events within ``within`` seconds, and return its answer for all of them.

        ``pieces`` are the results of ``piece``. The headers ``beside`` are added to the request; they come from no
        event.
        """
