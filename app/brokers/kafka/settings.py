"""Settings of the Kafka driver: how to reach a cluster, time limits and sizes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal

import msgspec

from app.brokers.kafka.bearer import ProvenTokens
from app.brokers.security import ClientTls

Compression = Literal["gzip", "snappy", "lz4", "zstd"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

MAX_RECORD = 1_000_000

ISOLATION = "read_committed"
"""The isolation level of all readers: records of aborted transactions are never read."""


class SaslCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """A user name and password for SASL. The password does not appear in ``repr``."""

    mechanism: Mechanism
    username: str
    password: str

    def __repr__(self) -> str:
        return f"Sasl(mechanism={self.mechanism!r}, username={self.username!r}, password=***)"


TokenSource = Callable[[], Awaitable[str]]
"""A function that returns a valid access token. It requests a new token if needed. It may raise OSError."""


class OAuthBearer(msgspec.Struct, frozen=True, kw_only=True):
    """SASL OAUTHBEARER (RFC 7628). ``token`` is called whenever a connection is made."""

    token: TokenSource


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one Kafka cluster. Times are in seconds, sizes in bytes.

    Attributes:
        acks: The replicas that must have a record: "all" means all in-sync ones. With 1 (the leader) or 0
            (no broker), no guarantee holds.
        create_topics: Whether missing topics are created, with ``partitions`` and ``replication``.
            Otherwise publishing to them fails.
        request_timeout: The time limit of an answer. It must be at least the publish time-out, because the
            client would otherwise give up early and the result would be "unknown".
        session_timeout: The silence after which the group gives a member's partitions to other members.
        commit_interval: The longest time between settling a message and its commit, while other messages are
            unfinished. Together with the time of the cluster's answer it stays below the promised 250 ms.
        rest_interval: The longest time between settling a message and its commit, for a member without
            unfinished messages.
        passed_interval: The longest time until a position is committed that only skipped messages have moved.
            After a kill the skipped messages are read again, but nothing is delivered again.
        handover: The time for which a revocation waits until messages in delivery are settled.
        instance_id: The id for static membership. A member that returns within the session time-out keeps
            its partitions without a rebalance. Each process needs its own id.
        max_record: The largest record. It is just below Kafka's default limit of a wire batch.
    """

    name: str
    bootstrap_servers: str
    client_id: str = "skybridge"
    tls: ClientTls | None = None
    sasl: SaslCredentials | OAuthBearer | None = None
    acks: Literal["all", 1, 0] = "all"
    compression: Compression | None = None
    create_topics: bool = False
    partitions: int = 8
    replication: int = 1
    request_timeout: float = 10.0
    metadata_age: float = 60.0
    max_batch: int = 256 << 10
    max_record: int = MAX_RECORD
    session_timeout: float = 30.0
    instance_id: str | None = None
    commit_interval: float = 0.2
    rest_interval: float = 0.08
    passed_interval: float = 1.0
    handover: float = 5.0
    max_poll_records: int = 1_000

    def client(self) -> dict[str, Any]:
        """Return the keyword arguments that every aiokafka client takes."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "metadata_max_age_ms": round(self.metadata_age * 1000),
            **self.one_connection(),
        }

    def one_connection(self) -> dict[str, Any]:
        """Return the keyword arguments for a single connection to one broker."""
        return {
            "client_id": self.client_id,
            "request_timeout_ms": round(self.request_timeout * 1000),
            "security_protocol": self._protocol(),
            "ssl_context": self.ssl_context(),
            **self._credentials(),
        }

    def _tokens(self, oauth: OAuthBearer) -> ProvenTokens:
        dial = partial(asyncio.open_connection, ssl=self.ssl_context())
        return ProvenTokens(oauth.token, self.bootstrap_servers, dial, self.request_timeout)

    def ssl_context(self) -> ssl.SSLContext | None:
        return None if self.tls is None else self.tls.context(self.name)

    def _protocol(self) -> str:
        transport = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{transport}" if self.sasl else transport

    def _credentials(self) -> dict[str, Any]:
        if self.sasl is None:
            return {}
        if isinstance(self.sasl, OAuthBearer):
            return {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": self._tokens(self.sasl),
            }
        return {
            "sasl_mechanism": self.sasl.mechanism,
            "sasl_plain_username": self.sasl.username,
            "sasl_plain_password": self.sasl.password,
        }
