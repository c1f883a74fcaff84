"""One client of the C++ library: made, asked, and given up within a bound.

Its calls that block are made in threads (``bridge``), for they are rare; a publish and an acknowledgement do not.
``pulsar.asyncio`` wakes the loop for each record (43 against 28 us of CPU a publish), and a callback of it that comes
when its loop is closed raises on a thread of the library, which ends the process.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pulsar

from app.brokers.pulsar.bridge import Bridge
from app.brokers.pulsar.settings import PulsarSettings
from app.tls import Copies, Pems

log = logging.getLogger(__name__)

CLOSE_WITHIN = 2.0  # seconds; a peer that does not read would let a close wait for ever
_COMPRESSIONS = {
    None: pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


class Connection:
    """A client and its connections. Made on the loop, never before a fork (reliability 5.3)."""

    def __init__(self, settings: PulsarSettings) -> None:
        self._settings = settings
        self.bridge = Bridge(asyncio.get_running_loop())
        self._copies = None if settings.tls is None else settings.tls.copies(settings.name)
        self._client = _client(settings, self._copies)
        self.closed = False

    async def producer(self, topic: str) -> Any:
        """One a partition, so that the partition is ours to choose. No batches of the client: they need waiting,
        save nothing (measured), and cross keys. Raises ClientError or TimeoutError."""
        settings = self._settings
        return await self._ask(
            lambda client: client.create_producer(
                topic,
                send_timeout_millis=round(settings.send_timeout * 1000),
                block_if_queue_full=False,  # it would block the loop
                max_pending_messages=0,  # the bounds are the portable log's
                max_pending_messages_across_partitions=0,
                batching_enabled=False,
                compression_type=_COMPRESSIONS[settings.compression],
            )
        )

    async def consumer(
        self, topic: str, group: str, name: str, listener: Callable[[Any, Any], None]
    ) -> Any:
        """A member under Failover. ``listener`` gets the consumer and each message, on a thread of the
        library, perhaps before we return. By a listener, not by ``receive``: a message that arrives while one is
        asked for can stay behind and be overtaken by the next. Raises ClientError or TimeoutError."""
        return await self._ask(
            lambda client: client.subscribe(
                topic,
                group,
                consumer_type=pulsar.ConsumerType.Failover,
                consumer_name=name,
                receiver_queue_size=self._settings.receiver_queue,
                message_listener=listener,
                batch_index_ack_enabled=True,
                # A partition that has no subscription yet is new: nothing before us may be passed over.
                initial_position=pulsar.InitialPosition.Earliest,
            )
        )

    async def reader(self, topic: str, start: Any) -> Any:
        """From the message id ``start`` on, that message included. Raises ClientError."""
        return await self._ask(
            lambda client: client.create_reader(topic, start, start_message_id_inclusive=True)
        )

    async def probe(self, topic: str) -> None:
        """A real answer of a broker about a topic that is there. Raises ClientError or TimeoutError."""
        await self._ask(lambda client: client.get_topic_partitions(topic))

    async def close(self) -> None:
        """Bounded; what a broker does not answer is closed in the background, within the client's own
        bound, and what it holds is sent no more once its socket is shut.

        By the library's ``close`` in a thread of ours, for two reasons, both found by test. Its
        ``shutdown`` waits for threads while it keeps the interpreter, which these threads may want for
        a callback of ours: ten seconds in which nothing runs. And a callback of its asynchronous close runs
        on a thread that nobody can wait for: if the interpreter ends meanwhile, the process aborts.
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
            log.warning("a client of Pulsar %s did not close in time", self._settings.name)
        else:
            closing.join()  # it has nothing left to do
        await self.bridge.rest(CLOSE_WITHIN)

    async def _ask(self, call: Callable[[Any], Any]) -> Any:
        within = self._settings.operation_timeout + 1.0  # the client's own bound comes first
        return await self.bridge.ask(call, self._client, within=within)


def _close(client: list[Any], bridge: Bridge, done: asyncio.Event, _copies: object) -> None:
    """``client``: the only reference to it, so that it ends here and not on the loop. It may read ``_copies`` until then."""
    try:
        client.pop().close()
    except Exception as error:  # noqa: BLE001 - of whatever kind: nothing is left to be done
        log.info("a client of Pulsar did not close cleanly: %s", error)
    bridge.post(done.set)


def _client(settings: PulsarSettings, copies: Copies | None) -> Any:
    """``copies``: the library reads the files at each connection of its own, and would ask the terminal for the pass
    phrase of a key that was encrypted meanwhile. They must last as long as the client."""
    tls = Pems(setting="") if copies is None else copies.pems
    return pulsar.Client(
        settings.service_url,
        authentication=_authentication(settings, tls),
        operation_timeout_seconds=math.ceil(settings.operation_timeout),
        connection_timeout_ms=round(settings.connect_timeout * 1000),
        io_threads=1,
        message_listener_threads=1,
        stats_interval_in_seconds=0,
        # Not to Python's logging: a line of the library would want the interpreter while it holds locks.
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, settings.client_log or os.devnull),
        tls_validate_hostname=settings.tls is None or settings.tls.verify_host,
        # The library would take its own list of authorities for the system's.
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
