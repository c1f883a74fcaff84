"""One idempotent producer of aiokafka: started, watched, and closed for good after a failure.

aiokafka's idempotent producer retries without end. So it would send records whose callers have a result
already. After a gap in its sequence numbers the producer fails until it is replaced (aiokafka issue 1017). So
this module checks every produce request before it is sent, and gives up a producer after any failure. The
next producer has a new id and sends only records without a result.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError, for_code

from app.brokers.aiokafka_adapter import (
    NAMES_RECORDS,
    PRODUCE,
    connect_once,
    metadata_request,
    newest_produce,
)
from app.brokers.kafka.addresses import addresses_of
from app.brokers.kafka.errors import Abandoned, KafkaRefusal
from app.brokers.kafka.questions import ask_any
from app.brokers.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

STOP_WITHIN = 2.0  # seconds; a close waits without end for a peer that does not read
PROBE_WITHIN = 2.0

_UNKNOWN_TOPIC = 3

Place = tuple[str, int]
"""Topic and partition number."""


class ProducerConnection:
    """A started producer, the check before each of its produce requests, and the errors that it met."""

    def __init__(
        self,
        settings: KafkaSettings,
        may_leave: Callable[[Place], bool],
        refused: Callable[[int], None] = lambda _code: None,
    ) -> None:
        """Create the producer without connecting it.

        Args:
            settings: The settings with which to reach the cluster.
            may_leave: A function that returns False if the batch of a partition must not be sent. It is
                called directly before the send.
            refused: Called with the code of each error that Kafka returns for a wire batch.
        """
        self.tainted = False  # True: no produce request may be sent any more
        self.refusals: dict[Place, KafkaRefusal] = {}  # the last error by partition
        self._may_leave = may_leave
        self._refused = refused
        # Without idempotence aiokafka does not retry a produce time-out (its issue 197). A linger was
        # measured to cost throughput.
        self._producer = AIOKafkaProducer(
            acks=settings.acks,
            enable_idempotence=settings.acks == "all",
            linger_ms=0,
            max_batch_size=settings.max_batch,
            compression_type=settings.compression,
            **settings.client(),
        )
        self.client: Any = self._producer.client
        self._send = self.client.send
        self.client.send = self._check_and_send
        self._settings = settings
        self._timeout = settings.request_timeout

    async def open(self) -> None:
        """Connect the producer. Raises KafkaError, OSError or TimeoutError."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._producer.start()
        except KafkaConnectionError as error:
            await self.close()
            raise await self._reason() or error from error
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop the producer within a time limit. Nothing is sent afterwards, even if the stop fails."""
        self.tainted = True
        await shut(self._producer, self.client, STOP_WITHIN)

    def create_batch(self) -> Any:
        return self._producer.create_batch()

    async def send_batch(self, batch: Any, place: Place) -> asyncio.Future[Any]:
        """Pass a wire batch to the client, and return a future for its base offset or a KafkaError.

        Does not wait if the topic is known and no batch of the partition is in flight.
        """
        future: asyncio.Future[Any] = await self._producer.send_batch(
            batch, place[0], partition=place[1]
        )
        return future

    async def partitions(self, topic: str) -> int | None:
        """Return the number of partitions of the topic, or None if it does not exist. Never creates the
        topic.

        Raises KafkaError, also when the topic exists and has no leaders yet.
        """
        answer = await self.ask(metadata_request([topic]))
        [(code, _, _, partitions)] = answer.topics
        if code == _UNKNOWN_TOPIC:
            return None
        if code:
            raise for_code(code)(topic)
        await self._producer.partitions_for(
            topic
        )  # makes the client refresh the metadata of this topic
        return len(partitions)

    async def watch(self, topics: Collection[str], changed: Callable[[Any], None]) -> bool:
        """Keep the metadata of these topics fresh, and call ``changed`` with the cluster after each
        refresh.

        Return False if no broker answered.
        """
        self.client.cluster.add_listener(changed)
        return not topics or bool(await self.client.set_topics(topics))

    async def ask(self, request: Any) -> Any:
        """Send one request to any broker and return its answer."""
        return await ask_any(self.client, request)

    async def probe(self) -> None:
        """Ask a broker for an answer within two seconds. Raises KafkaError, OSError or TimeoutError."""
        async with asyncio.timeout(PROBE_WITHIN):
            await self.ask(metadata_request([]))

    def leader(self, place: Any) -> int | None:
        """Return the node that leads the partition, or None during an election."""
        leader: int | None = self.client.cluster.leader_for_partition(place)
        return None if leader == -1 else leader

    def refresh(self) -> None:
        """Request fresh metadata soon."""
        self.client.force_metadata_update()

    async def _reason(self) -> Exception | None:
        """Return the error with which the first server rejects a connection, or None if it accepts one now.

        The client only logs that error.
        """
        host, port = addresses_of(self._settings.bootstrap_servers)[0]
        options = self._settings.one_connection()
        try:
            async with asyncio.timeout(PROBE_WITHIN):
                connection = await connect_once(host, port, **options)
        except KafkaConnectionError as error:
            return await _tls_alert(host, port, options["ssl_context"]) or error
        except (KafkaError, OSError, TimeoutError) as error:
            return error
        connection.close()
        return None

    async def _check_and_send(self, node: int, request: Any, **options: Any) -> Any:
        """Send a request of the client, or raise Abandoned if a batch in it must not be sent.

        The client connects before the check, so that the check and the send are one step.
        """
        if request.API_KEY != PRODUCE:
            return await self._send(node, request, **options)
        await self.client.ready(node)
        newest = newest_produce(request)
        places = _places(newest)
        for place in places:
            self.refusals.pop(place, None)
        if self.tainted or not all(map(self._may_leave, places)):
            raise Abandoned
        # The client itself uses version 7 at most, whose answers have no error messages.
        request.prepare = partial(_newest, request, newest)
        try:
            answer = await self._send(node, request, **options)
        finally:
            del request.prepare  # else a cycle keeps the wire batches until the garbage collector runs
        if request.required_acks:
            self._note(answer)
        return answer

    def _note(self, answer: Any) -> None:
        """Store the error codes of an answer as they were on the wire. The client would lose them, because it
        has no class for many codes."""
        for topic, partitions in answer.topics:
            for number, code, *more in partitions:
                if code:
                    records, message = (
                        more[-2:] if answer.API_VERSION >= NAMES_RECORDS else ((), None)
                    )
                    named = {index: text or "" for index, text in records or ()}
                    self.refusals[topic, number] = KafkaRefusal(code, named, message or "")
                    self._refused(code)


async def _tls_alert(host: str, port: int, tls: ssl.SSLContext | None) -> Exception | None:
    """Return the TLS alert with which a broker closes a connection, such as a missing certificate. Return
    None if there is no alert.

    With TLS 1.3 the alert comes after the handshake, and the client library does not report it.
    """
    if tls is None:
        return None
    try:
        async with asyncio.timeout(PROBE_WITHIN):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            try:
                await reader.read(1)
            finally:
                writer.transport.abort()  # closes without TLS shutdown, which could take long
    except (OSError, TimeoutError) as error:
        return error if isinstance(error, ssl.SSLError) else None
    return None


async def shut(what: Any, client: Any, within: float) -> None:
    """Stop a producer or consumer of aiokafka, and the ``client`` inside it, in any state.

    During an outage the library's own stop may hang. It may also end in CancelledError with sockets still
    open.
    """
    for stopping in (what.stop, client.close):
        task = asyncio.create_task(stopping())
        await asyncio.wait({task}, timeout=within)
        task.cancel()
        await asyncio.wait({task}, timeout=within)
        if task.done() and not task.cancelled() and task.exception() is None:
            return
        log.warning("a Kafka client did not stop cleanly: %r", task)


def _newest(request: Any, newest: Any, versions: Mapping[int, tuple[int, int]]) -> Any:
    """Return ``newest`` if the broker supports the version of this request (Kafka 2.4). Otherwise return
    ``request``, which the client prepared."""
    low, high = versions.get(PRODUCE, (0, 0))
    if low <= NAMES_RECORDS <= high:
        return newest
    return type(request).prepare(request, versions)


def _places(request: Any) -> list[Place]:
    return [
        (topic, partition) for topic, partitions in request.topics for partition, _ in partitions
    ]
