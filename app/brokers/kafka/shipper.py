"""Send the wire batches of all partitions, one request at a time to each leader.

Records that arrive while a request is in flight are sent together afterwards, in one request for all partitions of
that leader. A deliberate wait (a linger) would only cost time. No task and no future belongs to a request: a
callback of the event loop writes it, and its answer is a callback too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from struct import error as BadStruct  # noqa: N812 - an exception

from app.brokers.kafka.batcher import Batcher
from app.brokers.kafka.connection import ProducerConnection
from app.brokers.kafka.errors import FailureAction, KafkaRefusal, judge
from app.brokers.kafka.produce_request import (
    PRODUCE,
    Answer,
    Place,
    StoredAt,
    produce_answers,
    produce_request,
)
from app.brokers.kafka.refusals import Refusals
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.throttles import Throttles
from app.errors import PublishUnknown

log = logging.getLogger(__name__)

REST = 0.1  # seconds before a failed batch is sent again, or a missing leader is looked for again
ACKS = {"all": -1, 1: 1, 0: 0}
MOST_BYTES = 16 << 20  # of one request; brokers close a connection for a request above 100 MiB


class Shipper:
    """Sends what waits in batchers, while there is a connection.

    Attributes:
        waiting: The batchers that have something to send.
        quiet: Set while no request is in flight.
        answered: Whether a broker has stored or rejected a batch of this connection.
    """

    def __init__(
        self, settings: KafkaSettings, refusals: Refusals, counted: Callable[[int], None]
    ) -> None:
        """Create the shipper without a connection.

        Args:
            settings: The settings of the cluster.
            refusals: Applies refusals of wire batches to their records.
            counted: Called with the code of each error that the broker returns for a wire batch.
        """
        self.name = settings.name
        self.waiting: list[Batcher] = []
        self.quiet = asyncio.Event()
        self.quiet.set()
        self.answered = False
        self._connection: ProducerConnection | None = None
        self._taint: Callable[[str], None] = lambda _why: None
        self._refusals = refusals
        self._counted = counted
        self._busy: set[int] = set()  # leaders with a request in flight
        self._throttles = Throttles(settings.name)
        self._shipping = False  # whether ``_ship`` is scheduled
        self._looking = False  # whether ``_look_again`` is scheduled
        self._refreshed = False  # whether metadata were requested since the last look
        self._looks = 0  # calls of ``_look_again``
        self._acks = ACKS[settings.acks]
        self._timeout_ms = round(settings.request_timeout * 1000)

    def begin(self, connection: ProducerConnection, taint: Callable[[str], None]) -> None:
        """Send through a new connection. ``taint`` is called with the reason why it must be replaced."""
        self.answered = False
        self._connection, self._taint = connection, taint
        self.ship_soon()

    def end(self) -> None:
        """Send nothing more through the connection. Its batches that are not on the wire wait for the next one."""
        self._connection = None
        for batcher in self.waiting:
            if batcher.wire is not None:
                batcher.requeue()

    def await_turn(self, batcher: Batcher) -> None:
        """Send what is queued in a batcher as soon as its leader is free."""
        batcher.waiting = True
        self.waiting.append(batcher)
        connection = self._connection
        if not self._busy or connection is None or connection.leader(batcher.tp) not in self._busy:
            self.ship_soon()

    def ship_soon(self) -> None:
        """Send what waits in the next step of the event loop, after all requests that have arrived by then."""
        if not self._shipping and self._connection is not None:
            self._shipping = True
            asyncio.get_running_loop().call_soon(self._ship)

    def _ship(self) -> None:
        """Send one request to each leader that is free, with all that waits for it."""
        self._shipping = False
        connection = self._connection
        if connection is None:
            return
        batchers, self.waiting = self.waiting, []
        ready: dict[int, list[Batcher]] = {}
        try:
            for batcher in batchers:
                if self._connection is None:  # tainted by one of them
                    self._keep_unsent(batcher)
                else:
                    self._board(connection, batcher, ready)
            for node, together in ready.items():
                self._send(connection, node, together)
        except Exception as error:
            log.exception("Kafka %s: a bug prevented sending", self.name)
            for batcher in batchers:
                self._keep_unsent(batcher)
            self._taint(repr(error))

    def _keep_unsent(self, batcher: Batcher) -> None:
        """Queue the records of a batch again for the next connection. They were not sent."""
        if batcher.in_flight and not batcher.on_wire:
            batcher.requeue()
        listed = batcher in self.waiting
        if (batcher.queue or batcher.waiting) and not batcher.in_flight and not listed:
            self.await_turn(batcher)

    def _board(
        self, connection: ProducerConnection, batcher: Batcher, ready: dict[int, list[Batcher]]
    ) -> None:
        """Add a batcher to those whose wire batches are sent now, or let it wait."""
        leader = connection.leader(batcher.tp)
        if leader in self._busy:
            self.waiting.append(batcher)
        elif not batcher.queue and batcher.wire is None:
            batcher.waiting = False
        elif batcher.wire is not None and (batcher.topic.gone or batcher.holds_answered()):
            self._abandon(connection, batcher, leader)
        elif leader is None or self._rests(batcher) or self._throttles.stop(leader):
            self._wait(connection, batcher, refresh=leader is None)
        elif leader not in ready and connection.link(leader) is None:
            if self._wait(connection, batcher):
                self._taint(f"node {leader} cannot be reached")
        elif batcher.wire is not None or self._fill(connection, batcher):
            batcher.waiting = False
            ready.setdefault(leader, []).append(batcher)

    def _wait(
        self, connection: ProducerConnection, batcher: Batcher, *, refresh: bool = True
    ) -> int:
        """Let the records of a partition wait for a moment. Other partitions are sent in the meantime. Return the
        number of records whose callers have a result already. These are dropped."""
        self.waiting.append(batcher)
        if refresh and not self._refreshed:  # one refresh is enough
            self._refreshed = True
            connection.refresh()
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_later(REST, self._look_again)
        if batcher.seen == self._looks:  # many requests of other partitions may be sent in between
            return 0
        batcher.seen = self._looks
        return batcher.drop_answered()

    def _look_again(self) -> None:
        self._looking = self._refreshed = False
        self._looks += 1
        self.ship_soon()

    def _fill(self, connection: ProducerConnection, batcher: Batcher) -> bool:
        """Encode the next wire batch of a partition. Return False if there is none to send now."""
        builder = connection.sequences.builder(batcher)
        if builder is None:
            connection.renew()
            if self._wait(connection, batcher):
                self._taint("no node gives a producer id")
            return False
        # ``waiting`` is cleared afterwards, because a caller that gets an error here may publish at once.
        filled = batcher.fill(builder)
        batcher.waiting = False
        if filled:
            batcher.topic.on_batch_sent(batcher.number)
        return filled

    def _send(self, connection: ProducerConnection, node: int, together: list[Batcher]) -> None:
        link = connection.link(node)
        assert link is not None  # noqa: S101 - ``_board`` has looked in the same step
        sent: list[Batcher] = []
        batches: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        room = MOST_BYTES
        for batcher in together:
            wire = batcher.wire or b""
            room -= len(wire)
            if room < 0 and sent:
                batcher.waiting = True
                self.waiting.append(batcher)
                continue
            sent.append(batcher)
            batches[batcher.topic.name].append((batcher.number, wire))
        parts = produce_request(batches, self._acks, self._timeout_ms)
        told = partial(self._on_answer, connection, node, link.produce_version, sent)
        send = link.send if self._acks else link.send_unanswered
        send(PRODUCE, link.produce_version, parts, told)
        self._busy.add(node)
        self.quiet.clear()
        for batcher in sent:
            batcher.on_wire = True

    def _on_answer(
        self,
        connection: ProducerConnection,
        node: int,
        version: int,
        together: list[Batcher],
        answer: bytes | None,
    ) -> None:
        """Handle the answer to a request, or None if its connection was lost. Its leader is free again."""
        self._busy.discard(node)
        answers, throttle_ms = self._answers(answer, version, together)
        if throttle_ms:
            self._throttles.add(node, throttle_ms)
        for batcher in together:
            batcher.on_wire = False
            try:
                self._conclude(connection, batcher, answers.get(batcher.tp))
            except Exception as error:
                log.exception("Kafka %s: a bug prevented the handling of an answer", self.name)
                connection.sequences.forget(batcher)
                batcher.fail(PublishUnknown(repr(error), broker=self.name))
            if batcher.queue and not batcher.waiting and not batcher.in_flight:
                self.await_turn(batcher)
        if not self._busy:
            self.quiet.set()
        self.ship_soon()

    def _conclude(
        self, connection: ProducerConnection, batcher: Batcher, found: Answer | None
    ) -> None:
        if found is None:
            batcher.doubt()
            self._resend(connection, batcher)
        elif isinstance(found, StoredAt):
            self._stored(connection, batcher, found.offset)
        elif found.is_repetition and batcher.resent:
            self._stored(connection, batcher, None)
        else:
            self._failed(connection, batcher, found)

    def _stored(self, connection: ProducerConnection, batcher: Batcher, offset: int | None) -> None:
        self.answered = True
        connection.sequences.count_stored(batcher, len(batcher.in_flight))
        batcher.succeed(self.name, offset)

    def _answers(
        self, answer: bytes | None, version: int, together: list[Batcher]
    ) -> tuple[dict[Place, Answer], int]:
        """Return the answers by partition, and the throttle time in ms."""
        if answer is None:
            return {}, 0
        if not self._acks:
            return {batcher.tp: StoredAt(None) for batcher in together}, 0
        try:
            return produce_answers(answer, version)
        except (BadStruct, IndexError, UnicodeDecodeError):
            log.exception("Kafka %s: an answer cannot be read", self.name)
            return {}, 0

    def _resend(self, connection: ProducerConnection, batcher: Batcher) -> None:
        """Send the same wire batch again soon. The broker recognises it if it has stored it. With a connection
        that is being replaced the next connection sends the records. When that has ended, they are unknown."""
        if connection.closed:
            batcher.fail(PublishUnknown("the connection was closed", broker=self.name))
        elif connection is not self._connection or batcher.topic.gone is not None:
            connection.sequences.forget(batcher)
            batcher.requeue()
        else:
            batcher.resent = True
            self._rest(batcher)
            self.await_turn(batcher)

    def _rest(self, batcher: Batcher) -> None:
        batcher.rests_until = asyncio.get_running_loop().time() + REST

    def _rests(self, batcher: Batcher) -> bool:
        if not batcher.rests_until:
            return False
        if batcher.rests_until > asyncio.get_running_loop().time():
            return True
        batcher.rests_until = 0.0
        return False

    def _abandon(
        self, connection: ProducerConnection, batcher: Batcher, leader: int | None
    ) -> None:
        """Give up a wire batch, because a caller of it has a result already. The other records of the batch are
        sent again, in a batch that the broker does not take for this one."""
        connection.sequences.forget(batcher)
        batcher.requeue()
        self.waiting.append(batcher)
        self.ship_soon()
        if leader is not None and connection.link(leader) is None:
            self._taint(f"node {leader} cannot be reached")

    def _failed(
        self, connection: ProducerConnection, batcher: Batcher, refusal: KafkaRefusal
    ) -> None:
        """Handle a wire batch that the broker did not confirm."""
        self._counted(refusal.code)
        if refusal.is_in_doubt:
            batcher.doubt()
        action = judge(refusal)
        if refusal.is_of_stale_metadata:
            connection.refresh()
        if action is FailureAction.RESEND:
            self._resend(connection, batcher)
            return
        if action is FailureAction.AGAIN:
            log.warning("Kafka %s: %s: %s", self.name, batcher.topic.name, refusal.name)
            self._rest(batcher)
        else:
            self.answered = True
        if action is FailureAction.AGAIN or batcher.resent or not refusal.is_clear:
            connection.sequences.forget(batcher)  # else it is certain that nothing was stored
        self._refusals.apply(batcher, refusal, action)
