"""How to reach a cluster, and how to behave towards it."""

from __future__ import annotations

import ssl
from typing import Literal

import msgspec

from app.brokers.security import ClientTls, OAuth2

Compression = Literal["lz4", "zlib", "zstd", "snappy"]

MAX_RECORD = 4 << 20


class PulsarSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster. Times in seconds, sizes in bytes.

    ``service_url``      ``pulsar://`` or ``pulsar+ssl://``; several brokers separated by commas.
    ``admin_url``        ``http://`` or ``https://``: topics, starts and owners are asked for there.
    ``namespace``        of topics that name none.
    ``create_topics``    make topics that are not there, with ``partitions``; otherwise they are
                         refused at once.
    ``send_timeout``     after which the client itself forgets a record. Not above the publish
                         time-out: what was answered must not be sent any more (rule 9).
    ``operation_timeout`` for one answer of the client or of the administration.
    ``reconnect_within`` how long a lost connection may heal by itself. The client waits up to a
                         minute between its attempts; beyond this we make a new one.
    ``ownership_check``  how often it is asked who owns which partition. Below the broker's own
                         delay before a new owner reads (1 s), so that two owners do not overlap.
    ``quiet_check``      the same for a topic where nothing is open or changing. Below ``lease``.
    ``lease``            how long an answer to that counts, by the monotonic clock (rule 5).
    ``receiver_queue``   messages of one partition that the client fetches ahead.
    ``client_log``       a file for what the client library says about itself; None: nowhere.
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
        """Raises SetupError for files of TLS that cannot be used, before anything is connected."""
        if self.tls is not None:
            self.tls.context(self.name)

    def ssl_context(self) -> ssl.SSLContext:
        """For the administration; the client library takes copies of the files."""
        return (self.tls or ClientTls()).context(self.name)
