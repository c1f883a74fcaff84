"""How to reach a cluster, and how to behave towards it."""

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
"""Of everybody who reads: what a transaction took back was never said."""


class Sasl(msgspec.Struct, frozen=True, kw_only=True):
    """User and password. The password appears in no text that this makes."""

    mechanism: Mechanism
    username: str
    password: str

    def __repr__(self) -> str:
        return f"Sasl(mechanism={self.mechanism!r}, username={self.username!r}, password=***)"


TokenSource = Callable[[], Awaitable[str]]
"""Gives an access token that is still good, a new one where need be. May raise OSError."""


class OAuth(msgspec.Struct, frozen=True, kw_only=True):
    """SASL OAUTHBEARER (RFC 7628): asked for a token whenever a connection is made."""

    token: TokenSource


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster. Times in seconds, sizes in bytes.

    ``acks``             how many replicas must have a record: ``all`` in-sync ones, or, outside every
                         guarantee (rule 1), the leader alone (1) or nobody (0).
    ``create_topics``    make topics that are not there, with ``partitions`` and ``replication``;
                         otherwise they are refused at once.
    ``request_timeout``  for one answer of a broker. Not below the publish time-out: an answer that
                         still comes in time is better than "unknown".
    ``session_timeout``  after how much silence the group gives our partitions to somebody else.
    ``commit_interval``  how long a settled message waits for its commit while others are open: with the
                         cluster's answer below the 250 ms that are promised.
    ``rest_interval``    the same for a member with nothing open.
    ``passed_interval``  the same for positions that only unwanted messages have passed: a kill reads them again,
                         and repeats no delivery.
    ``handover``         how long a revocation waits for what is in work to be settled.
    ``instance_id``      static membership: a member that comes back under it within the session
                         time-out gets its partitions back without a rebalance. One a process.
    ``max_record``       just below the broker's own default bound of one wire batch.
    """

    name: str
    bootstrap_servers: str
    client_id: str = "skybridge"
    tls: ClientTls | None = None
    sasl: Sasl | OAuth | None = None
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
        """Keyword arguments that every client of aiokafka takes."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "metadata_max_age_ms": round(self.metadata_age * 1000),
            **self.one_connection(),
        }

    def one_connection(self) -> dict[str, Any]:
        """Of these, what a single connection to one broker takes."""
        return {
            "client_id": self.client_id,
            "request_timeout_ms": round(self.request_timeout * 1000),
            "security_protocol": self._protocol(),
            "ssl_context": self.ssl_context(),
            **self._credentials(),
        }

    def _tokens(self, oauth: OAuth) -> ProvenTokens:
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
        if isinstance(self.sasl, OAuth):
            return {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": self._tokens(self.sasl),
            }
        return {
            "sasl_mechanism": self.sasl.mechanism,
            "sasl_plain_username": self.sasl.username,
            "sasl_plain_password": self.sasl.password,
        }
