"""One idempotent producer at a time: made, watched, and replaced when it is of no use any more.

aiokafka's idempotent producer retries for ever, so after its callers have been answered it would send
their records still (against rule 9); and one gap in its sequence numbers leaves it failing until it
is replaced (reliability 5.1, #1017). So every produce request passes a gate, and whatever fails
taints the producer: the next one has a new producer id, and sends only what is still unanswered.
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
from app.brokers.kafka.errors import Abandoned, Refusal
from app.brokers.kafka.questions import ask_any
from app.brokers.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

STOP_WITHIN = 2.0  # seconds; a peer that does not read would let a close wait for ever
PROBE_WITHIN = 2.0

_UNKNOWN_TOPIC = 3

Place = tuple[str, int]
"""Topic and partition number."""


class Connection:
    """A started producer, its gate, and how it fares."""

    def __init__(
        self,
        settings: KafkaSettings,
        may_leave: Callable[[Place], bool],
        refused: Callable[[int], None] = lambda _code: None,
    ) -> None:
        """``may_leave``: asked for each partition of a request in the step that would send it. ``refused``: gets the
        code of each error that Kafka answers to a wire batch."""
        self.tainted = False  # nothing may leave any more
        self.refusals: dict[Place, Refusal] = {}  # the last answers, as far as they are errors
        self._may_leave = may_leave
        self._refused = refused
        # acks=all and idempotence, against the defaults acks=1 and none, unless a route is relaxed;
        # without idempotence a produce time-out is not retried (reliability 5.1, #197). No linger:
        # it only hurts.
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
        self.client.send = self._gate
        self._settings = settings
        self._timeout = settings.request_timeout

    async def open(self) -> None:
        """Raises KafkaError, OSError or TimeoutError."""
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
        """Bounded: afterwards nothing is sent any more, whatever is left behind."""
        self.tainted = True
        await shut(self._producer, self.client, STOP_WITHIN)

    def create_batch(self) -> Any:
        return self._producer.create_batch()

    async def send_batch(self, batch: Any, place: Place) -> asyncio.Future[Any]:
        """Hand a wire batch over. Does not wait when the topic is known and nothing of the partition
        is under way; the future has the base offset, or a KafkaError."""
        future: asyncio.Future[Any] = await self._producer.send_batch(
            batch, place[0], partition=place[1]
        )
        return future

    async def partitions(self, topic: str) -> int | None:
        """How many partitions the topic has, None for an unknown one. Never creates it.

        Raises KafkaError, also when the topic is there and has no leaders yet.
        """
        answer = await self.ask(metadata_request([topic]))
        [(code, _, _, partitions)] = answer.topics
        if code == _UNKNOWN_TOPIC:
            return None
        if code:
            raise for_code(code)(topic)
        await self._producer.partitions_for(topic)  # from now on its metadata is kept fresh
        return len(partitions)

    async def watch(self, topics: Collection[str], changed: Callable[[Any], None]) -> bool:
        """Keep the metadata of these topics; ``changed`` gets the cluster after each refresh.
        False: no broker told us."""
        self.client.cluster.add_listener(changed)
        return not topics or bool(await self.client.set_topics(topics))

    async def ask(self, request: Any) -> Any:
        """One request to any broker."""
        return await ask_any(self.client, request)

    async def probe(self) -> None:
        """A real answer of a broker, soon. Raises KafkaError, OSError or TimeoutError."""
        async with asyncio.timeout(PROBE_WITHIN):
            await self.ask(metadata_request([]))

    def leader(self, place: Any) -> int | None:
        """The node that takes writes for a partition; None while an election is under way."""
        leader: int | None = self.client.cluster.leader_for_partition(place)
        return None if leader == -1 else leader

    def refresh(self) -> None:
        """Ask for fresh metadata, soon."""
        self.client.force_metadata_update()

    async def _reason(self) -> Exception | None:
        """Why the first broker of the list rejects the connection: the client tells it to nobody. None
        when it does by now."""
        host, port = addresses_of(self._settings.bootstrap_servers)[0]
        options = self._settings.one_connection()
        try:
            async with asyncio.timeout(PROBE_WITHIN):
                connection = await connect_once(host, port, **options)
        except KafkaConnectionError as error:
            return await _farewell(host, port, options["ssl_context"]) or error
        except (KafkaError, OSError, TimeoutError) as error:
            return error
        connection.close()
        return None

    async def _gate(self, node: int, request: Any, **options: Any) -> Any:
        """In front of the wire. Connecting comes first, so that asking and writing are one step."""
        if request.API_KEY != PRODUCE:
            return await self._send(node, request, **options)
        await self.client.ready(node)
        newest = newest_produce(request)
        places = _places(newest)
        for place in places:
            self.refusals.pop(place, None)
        if self.tainted or not all(map(self._may_leave, places)):
            raise Abandoned
        # The client stops at version 7, without the broker's words.
        request.prepare = partial(_newest, request, newest)
        answer = await self._send(node, request, **options)
        if request.required_acks:
            self._note(answer)
        return answer

    def _note(self, answer: Any) -> None:
        """Keep the errors as they were on the wire: the client has no class for many of them."""
        for topic, partitions in answer.topics:
            for number, code, *more in partitions:
                if code:
                    records, words = (
                        more[-2:] if answer.API_VERSION >= NAMES_RECORDS else ((), None)
                    )
                    named = {index: text or "" for index, text in records or ()}
                    self.refusals[topic, number] = Refusal(code, named, words or "")
                    self._refused(code)


async def _farewell(host: str, port: int, tls: ssl.SSLContext | None) -> Exception | None:
    """What a broker says in TLS before it hangs up, such as that it wants a certificate: with TLS 1.3
    that comes when we believe to be connected already, and the client does not tell it."""
    if tls is None:
        return None
    try:
        async with asyncio.timeout(PROBE_WITHIN):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            try:
                await reader.read(1)
            finally:
                writer.transport.abort()  # no farewell of ours: it would outlast us
    except (OSError, TimeoutError) as error:
        return error if isinstance(error, ssl.SSLError) else None
    return None


async def shut(what: Any, client: Any, within: float) -> None:
    """Stop a producer or consumer of aiokafka and the ``client`` inside it, in whatever state.

    In an outage its stop may wait for ever, or end in CancelledError half-way with sockets open.
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
    """Return ``newest`` for a broker that has its version (Kafka 2.4), else the request as the client would."""
    low, high = versions.get(PRODUCE, (0, 0))
    if low <= NAMES_RECORDS <= high:
        return newest
    return type(request).prepare(request, versions)


def _places(request: Any) -> list[Place]:
    return [
        (topic, partition) for topic, partitions in request.topics for partition, _ in partitions
    ]
