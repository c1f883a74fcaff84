"""Settings of the Pulsar driver: how to reach a cluster, time limits and sizes."""

from __future__ import annotations

import ssl
from typing import Literal

import msgspec

from app.brokers.security import ClientTls, OAuth2

Compression = Literal["lz4", "zlib", "zstd", "snappy"]
PublisherKind = Literal["protocol", "client"]
Batching = Literal["none", "by_key", "mixed"]

MAX_RECORD = 4 << 20


class PulsarSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one Pulsar cluster. Times are in seconds, sizes in bytes.

    Attributes:
        service_url: ``pulsar://`` or ``pulsar+ssl://``, with several brokers separated by commas.
        admin_url: ``http://`` or ``https://`` of the administration, for topics, start positions and
            owners, with several brokers separated by commas and tried in turn.
        namespace: The namespace of topics that name none.
        create_topics: Whether missing topics are created, with ``partitions``. Otherwise publishing to them
            fails.
        publisher: What publishes: ``protocol`` is ``wire``, ``client`` is the client library.
        batching: Which records ``wire`` puts into one batch: those of one key, any, or none.
        send_timeout: The time after which the client drops a record. It must not exceed the publish time-out,
            because a record must not be sent after its caller has a result.
        operation_timeout: The time limit of one answer of the client or the administration.
        reconnect_within: The time in which a lost connection may recover. Afterwards the client is replaced,
            because it waits up to a minute between its attempts.
        ownership_check: The time between two requests for the owners of partitions. It must be less than the
            broker's delay before a new owner reads (1 s), so that two owners do not overlap.
        quiet_check: The time between two requests for the owners, for a topic without unfinished messages or
            changes. It must be less than ``lease``.
        lease: How long an answer about owners is valid, by the monotonic clock.
        receiver_queue: Most messages of one partition that the client prefetches.
        client_log: The log file of the client library. None discards its log.
    """

    name: str
    service_url: str
    admin_url: str
    namespace: str = "public/default"
    client_id: str = "skybridge"
    tls: ClientTls | None = None
    token: str | None = None
    oauth2: OAuth2 | None = None
    compression: Compression | None = None
    create_topics: bool = False
    publisher: PublisherKind = "protocol"
    batching: Batching = "none"
    partitions: int = 8
    send_timeout: float = 10.0
    operation_timeout: float = 5.0
    connect_timeout: float = 3.0
    reconnect_within: float = 2.0
    metadata_age: float = 60.0
    max_record: int = MAX_RECORD
    ownership_check: float = 0.5
    quiet_check: float = 2.0
    lease: float = 5.0
    receiver_queue: int = 200
    max_poll_records: int = 1_000
    client_log: str | None = None

    def __repr__(self) -> str:
        return f"PulsarSettings(name={self.name!r}, service_url={self.service_url!r})"

    def check_files(self) -> None:
        """Raise SetupError if a TLS file cannot be used. Called before any connection."""
        if self.tls is not None:
            self.tls.context(self.name)

    def ssl_context(self) -> ssl.SSLContext:
        """Return the TLS context for the administration. The client library uses copies of the files
        instead."""
        return (self.tls or ClientTls()).context(self.name)
