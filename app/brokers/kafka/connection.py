"""The connections of a publisher to one cluster: metadata, a link to each leader, and producer ids.

aiokafka's client has the metadata, but its producer sends nothing. That producer retries without end, so it would
send records whose callers have a result already. After a gap in its sequence numbers it fails until it is replaced
(aiokafka issue 1017). Here a partition whose next number is not certain gets a new producer id (``sequences``), and
no other partition notices.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Collection
from random import shuffle
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError, for_code

from app.brokers.aiokafka_adapter import connect_once, metadata_request
from app.brokers.kafka.addresses import addresses_of
from app.brokers.kafka.broker_link import BrokerLink
from app.brokers.kafka.produce_request import (
    INIT_PRODUCER_ID,
    identity_answer,
    identity_request,
)
from app.brokers.kafka.questions import ask_any
from app.brokers.kafka.sequences import Sequences
from app.brokers.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

STOP_WITHIN = 2.0  # seconds; a close waits without end for a peer that does not read
PROBE_WITHIN = 2.0
IDLE_FOR = 540.0  # seconds; brokers close connections that were idle for ten minutes
ASK_AGAIN = 0.1  # seconds until a producer id is requested again

_UNKNOWN_TOPIC = 3
_NOT_YET = frozenset({14, 15, 16, 51})  # the broker cannot give producer ids at the moment


class ProducerConnection:
    """A connected client of one cluster, with a link to each leader that is in use. ``closed`` is True after its end."""

    def __init__(self, settings: KafkaSettings, ready: Callable[[], None]) -> None:
        """Create the client without connecting it.

        Args:
            settings: The settings with which to reach the cluster.
            ready: Called when a link or a producer id that was missing may be there.
        """
        self.closed = False
        self._ready = ready
        self._producer = AIOKafkaProducer(
            compression_type=settings.compression, enable_idempotence=False, **settings.client()
        )
        self.client: Any = self._producer.client
        self._settings = settings
        self._options = settings.one_connection()
        self._timeout = settings.request_timeout
        self._links: dict[int, BrokerLink] = {}
        self.sequences = Sequences(
            idempotent=settings.acks == "all",
            batch_bytes=settings.max_batch,
            compression=settings.compression,
        )
        self._tasks: dict[int | None, asyncio.Task[None]] = {}  # by node; None: the new producer id
        self._refused_by: type[Exception] | None = None  # the last request for a producer id

    async def open(self) -> None:
        """Connect the client and get a producer id. Raises KafkaError, OSError or TimeoutError."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._producer.start()
                await self._get_identity()
        except KafkaConnectionError as error:
            await self.close()
            raise await self._reason() or error from error
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop the client within a time limit. Nothing is sent afterwards, even if the stop fails."""
        self.closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for link in list(self._links.values()):
            link.close()
        await shut(self._producer, self.client, STOP_WITHIN)

    def link(self, node: int) -> BrokerLink | None:
        """Return the link to a node. If there is none, return None and connect in the background."""
        link = self._links.get(node)
        if link is not None and link.used + IDLE_FOR < asyncio.get_running_loop().time():
            link.close()
            link = None
        if link is None:
            self._work(node, self._connect)
        return link

    def renew(self) -> None:
        """Request a new producer id in the background."""
        self._work(None, self._renew)

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
                connection, _ = await connect_once(host, port, **options)
        except KafkaConnectionError as error:
            return await _tls_alert(host, port, options["ssl_context"]) or error
        except (KafkaError, OSError, TimeoutError) as error:
            return error
        connection.close()
        return None

    def _work(self, what: int | None, work: Callable[[int | None], Any]) -> None:
        """Start a task, unless it is running. ``ready`` is called when it ends."""
        if what not in self._tasks and not self.closed:
            self._tasks[what] = task = asyncio.create_task(work(what))
            task.add_done_callback(lambda _: self._tasks.pop(what, None))

    async def _connect(self, node: Any) -> None:
        try:
            await self._open_link(node)
        except (KafkaError, OSError, TimeoutError) as error:
            log.debug("Kafka node %s cannot be reached: %r", node, error)
            self.refresh()
        else:
            self._ready()

    async def _open_link(self, node: int) -> BrokerLink:
        broker = self.client.cluster.broker_metadata(node)
        if broker is None:
            raise NodeNotReadyError(f"node {node} is not in the metadata")
        settings = self._settings
        link = BrokerLink(settings.client_id, settings.request_timeout, self._drop)
        await link.open(broker.host, broker.port, **self._options)
        there = self._links.setdefault(node, link)
        if there is not link:  # two were opened at once
            link.close()
        return there

    def _drop(self, lost: BrokerLink) -> None:
        self._links = {node: link for node, link in self._links.items() if link is not lost}
        if not self.closed:
            self.refresh()  # its partitions may have another leader soon

    async def _renew(self, _: Any) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._get_identity()
        except (KafkaError, OSError, TimeoutError) as error:
            if self._refused_by is not type(error):  # it is requested ten times a second
                log.warning("Kafka %s gives no producer id: %r", self._settings.name, error)
            self._refused_by = type(error)
        else:
            self._refused_by = None
            self._ready()

    async def _get_identity(self) -> None:
        """Get a new producer id from any broker. Raises KafkaError, OSError or TimeoutError."""
        while self.sequences.identity is None:
            code, identity = identity_answer(await self._ask_any_for_identity())
            if not code:
                self.sequences.identity = identity
            elif code in _NOT_YET:
                await asyncio.sleep(ASK_AGAIN)
            else:
                raise for_code(code)

    async def _ask_any_for_identity(self) -> bytes:
        nodes = [broker.nodeId for broker in self.client.cluster.brokers()]
        shuffle(nodes)
        failure: Exception = KafkaConnectionError("no node of the cluster is known")
        for node in nodes:
            try:
                link = self._links.get(node) or await self._open_link(node)
                return await link.ask(INIT_PRODUCER_ID, 0, identity_request())
            except (KafkaError, OSError, TimeoutError) as error:
                failure = error
        raise failure


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
