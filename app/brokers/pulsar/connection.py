"""One client of Pulsar's C++ library, with time limits for its blocking calls and its close.

Blocking calls are rare and run in threads (``bridge``); publishing and acknowledging do not block. The
library's module ``pulsar.asyncio`` is not used, for two reasons. It wakes the loop for each record (43
instead of 28 us of CPU for a publish). And a callback after the loop was closed raises on a thread of the
library, which ends the process.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import ssl
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pulsar

from app.bindings.record import Record
from app.brokers.pulsar.batchers import OnResult
from app.brokers.pulsar.bridge import Bridge
from app.brokers.pulsar.messages import build
from app.brokers.pulsar.positions import place_of
from app.brokers.pulsar.settings import PulsarSettings
from app.tls import Copies, Pems

log = logging.getLogger(__name__)

CLOSE_WITHIN = 2.0  # seconds; a close waits without end for a peer that does not read
_COMPRESSIONS = {
    None: pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


class LibraryProducer:
    """A producer of the client library. Its results come from the library's threads."""

    def __init__(self, producer: Any, bridge: Bridge) -> None:
        self._producer = producer
        self._bridge = bridge

    def is_connected(self) -> bool:
        """Return True if the producer has a connection."""
        return bool(self._producer.is_connected())

    def send(self, record: Record, done: OnResult, _dropped: Callable[[], bool]) -> None:
        """Publish a record. Raise TypeError or ValueError if the library cannot encode it."""
        message = build(record)
        self._producer.send_async(
            message.content,
            partial(self._bridge.post, _answer, done),
            properties=message.properties,
            partition_key=message.partition_key,
            event_timestamp=message.event_timestamp,
        )


def _answer(done: OnResult, result: pulsar.Result, message_id: Any) -> None:
    done(result, place_of(message_id) if result == pulsar.Result.Ok else None)


class PulsarConnection:
    """A client of the library and its connections. It must be created on the event loop, and never before a
    fork."""

    def __init__(self, settings: PulsarSettings) -> None:
        self._settings = settings
        self.bridge = Bridge(asyncio.get_running_loop())
        self._copies = None if settings.tls is None else settings.tls.copies(settings.name)
        self._client = _client(settings, self._copies)
        self.closed = False

    async def producer(self, topic: str, _on_lost: Callable[[str], None]) -> LibraryProducer:
        """Open a producer for one partition. A producer for the whole topic would choose partitions itself.

        The client's batching is off. It adds waits, saved no CPU when measured, and mixes keys in a batch. The
        client reconnects by itself, so it never reports a loss. Raises ClientError or TimeoutError.
        """
        settings = self._settings
        opened = await self._ask(
            lambda client: client.create_producer(
                topic,
                send_timeout_millis=round(settings.send_timeout * 1000),
                block_if_queue_full=False,  # True would block the loop
                max_pending_messages=0,  # no limit: the portable log has the bounds
                max_pending_messages_across_partitions=0,
                batching_enabled=False,
                compression_type=_COMPRESSIONS[settings.compression],
            )
        )
        return LibraryProducer(opened, self.bridge)

    async def consumer(
        self, topic: str, group: str, name: str, listener: Callable[[Any, Any], None]
    ) -> Any:
        """Join a Failover subscription in one partition.

        Messages go to a listener, because with ``receive`` a message can be overtaken by the next one. Raises
        ClientError or TimeoutError.

        Args:
            topic: The full name of the partition.
            group: The name of the subscription.
            name: The name of this consumer, which the broker reports as owner.
            listener: Called with the consumer and each message on a thread of the library, perhaps before
                this method returns.
        """
        return await self._ask(
            lambda client: client.subscribe(
                topic,
                group,
                consumer_type=pulsar.ConsumerType.Failover,
                consumer_name=name,
                receiver_queue_size=self._settings.receiver_queue,
                message_listener=listener,
                batch_index_ack_enabled=True,
                # Only a new partition has no subscription yet: no earlier message may be skipped.
                initial_position=pulsar.InitialPosition.Earliest,
            )
        )

    async def reader(self, topic: str, start: Any) -> Any:
        """Open a reader that begins with the message that has the id ``start``. Raises ClientError."""
        return await self._ask(
            lambda client: client.create_reader(topic, start, start_message_id_inclusive=True)
        )

    async def probe(self, topic: str) -> None:
        """Ask a broker about an existing topic. Raises ClientError or TimeoutError."""
        await self._ask(lambda client: client.get_topic_partitions(topic))

    async def close(self) -> None:
        """Close the client within a time limit. Pending records are not sent after its sockets are shut.

        If a broker does not answer, closing continues in the background, within the client's own time limit.

        The library's ``close`` runs in a thread here, for two reasons found by test. Its ``shutdown`` waits
        for its threads while it holds the interpreter lock. Those threads may need the lock for a callback,
        so nothing runs for ten seconds. The callback of its asynchronous close runs on a thread that cannot
        be waited for. If the interpreter ends before that thread, the process aborts.
        """
        if self.closed:
            return
        self.closed = True
        done = asyncio.Event()
        client, self._client = self._client, None
        closing = threading.Thread(
            target=_close,
            args=([client], self.bridge, done, self._copies),
            name="pulsar-close",
            daemon=True,
        )
        closing.start()
        del client
        try:
            async with asyncio.timeout(CLOSE_WITHIN):
                await done.wait()
        except TimeoutError:
            log.warning("Pulsar %s: a client did not close in time", self._settings.name)
        else:
            closing.join()  # the thread is at its end
        await self.bridge.wait_for_threads(CLOSE_WITHIN)

    async def _ask(self, call: Callable[[Any], Any]) -> Any:
        within = self._settings.operation_timeout + 1.0  # longer than the client's own time limit
        return await self.bridge.ask(call, self._client, within=within)


def _close(client: list[Any], bridge: Bridge, done: asyncio.Event, _copies: object) -> None:
    """Close the client in a thread, and set ``done`` on the loop.

    Args:
        client: A list with the only reference to the client, so that the client is freed here and not on
            the loop.
        bridge: The bridge to the loop.
        done: Set when the client is closed.
        _copies: The TLS files, which must exist until the client is closed.
    """
    try:
        client.pop().close()
    except Exception as error:  # noqa: BLE001 - no error needs handling at this point
        log.info("a Pulsar client did not close cleanly: %s", error)
    bridge.post(done.set)


def _client(settings: PulsarSettings, copies: Copies | None) -> Any:
    """Create a client of the library. ``copies`` of the TLS files must exist as long as the client.

    The library reads the files at each connection. If the original key file was encrypted in the meantime,
    the library would ask for a pass phrase on the terminal.
    """
    tls = Pems(setting="") if copies is None else copies.pems
    return pulsar.Client(
        settings.service_url,
        authentication=_authentication(settings, tls),
        operation_timeout_seconds=math.ceil(settings.operation_timeout),
        connection_timeout_ms=round(settings.connect_timeout * 1000),
        io_threads=1,
        message_listener_threads=1,
        stats_interval_in_seconds=0,
        # Python's logging is not used, because the library would wait for the interpreter while it holds locks.
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, settings.client_log or os.devnull),
        tls_validate_hostname=settings.tls is None or settings.tls.verify_host,
        # The library's default is its own list of authorities, not the system's.
        tls_trust_certs_file_path=_text(tls.ca) or ssl.get_default_verify_paths().cafile,
        tls_certificate_file_path=_text(tls.cert),
        tls_private_key_file_path=_text(tls.key),
    )


def _authentication(settings: PulsarSettings, tls: Pems) -> Any:
    if settings.token is not None:
        return pulsar.AuthenticationToken(settings.token)
    if settings.oauth2 is not None:
        oauth2 = settings.oauth2
        parameters = {
            "type": "client_credentials",
            "issuer_url": oauth2.issuer_url,
            "private_key": str(oauth2.credentials),
            "audience": oauth2.audience,
            "scope": oauth2.scope,
        }
        text = msgspec.json.encode({key: value for key, value in parameters.items() if value})
        return pulsar.AuthenticationOauth2(text.decode())
    if tls.cert is not None:
        return pulsar.AuthenticationTLS(str(tls.cert), str(tls.key))
    return None


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
