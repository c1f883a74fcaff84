"""The settings of a Kafka cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from app.brokers.security import ClientTls
from app.config.parts import InFlight, MaxRecord, Servers, Topics
from app.model.duration import Count, Duration
from app.model.route import Strict


class OAuth(Strict):
    """Access tokens by OAuth 2 client credentials, for OAUTHBEARER. Renewed before they end."""

    token_endpoint: Annotated[str, Field(pattern=r"^https?://[^/?#]")] = Field(
        description="URL that grants tokens; https but on loopback"
    )
    client_id: str = Field(description="who asks for a token")
    client_secret: SecretStr = Field(description='best "${env:NAME}" or "${file:/path}"')
    scope: str | None = Field(None, description="asked for, where the server wants to be told")


class Sasl(Strict):
    """How to log in to Kafka."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        description="SASL mechanism"
    )
    username: str | None = Field(None, description="user name; not for OAUTHBEARER")
    password: SecretStr | None = Field(
        None, description='password; best "${env:NAME}" or "${file:/path}"; not for OAUTHBEARER'
    )
    oauth: OAuth | None = Field(None, description="OAUTHBEARER: where tokens are granted")
    token: SecretStr | None = Field(
        None, description='OAUTHBEARER: one token for good, best "${file:/path}"'
    )
    token_file: Path | None = Field(
        None,
        description="OAUTHBEARER: file of a token that somebody renews; read anew for each connection",
    )

    @model_validator(mode="after")
    def credentials_fit(self) -> Sasl:
        user = (self.username, self.password)
        bearer = [name for name in ("oauth", "token", "token_file") if getattr(self, name)]
        if self.mechanism != "OAUTHBEARER":
            if bearer:
                raise ValueError(f"{bearer[0]} is for mechanism OAUTHBEARER")
            if None in user:
                raise ValueError(f"{self.mechanism} needs username and password")
        elif user != (None, None):
            raise ValueError("OAUTHBEARER takes no username and password")
        elif len(bearer) != 1:
            raise ValueError("OAUTHBEARER needs one of oauth, token, token_file")
        return self


class Security(Strict):
    """How the connection is protected. ``protocol`` follows from sasl and tls where it is not given."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None = Field(
        None, description="follows from sasl and tls when left out"
    )
    sasl: Sasl | None = Field(None, description="how to log in")
    tls: ClientTls | None = Field(None, description="TLS; {} for the system's authorities")

    @model_validator(mode="after")
    def protocol_fits(self) -> Security:
        if self.protocol is None:
            return self
        if self.protocol.startswith("SASL") != (self.sasl is not None):
            raise ValueError("protocol and sasl contradict each other")
        if self.tls is not None and "SSL" not in self.protocol:
            raise ValueError("protocol and tls contradict each other")
        return self

    @property
    def encryption(self) -> ClientTls | None:
        """The TLS settings in force; None for a connection in clear."""
        if self.protocol in {"SSL", "SASL_SSL"}:
            return self.tls or ClientTls()
        return self.tls


class ReplicatedTopics(Topics):
    """What happens to topics that do not exist."""

    replication: Annotated[Count, Field(ge=1, le=32)] = Field(
        1, description="copies of topics made by us"
    )


class KafkaBroker(Strict):
    """An Apache Kafka cluster. Publishing waits for all in-sync replicas and is idempotent."""

    kind: Literal["kafka"] = Field(description="kafka")
    bootstrap_servers: Servers = Field(
        description="host:port, several joined by commas or as a list"
    )
    client_id: Annotated[str, Field(min_length=1)] = Field(
        "skybridge", description="how the brokers' own logs name us"
    )
    security: Security = Field(Security(), description="TLS and login")
    topics: ReplicatedTopics = Field(
        ReplicatedTopics(), description="what happens to topics that do not exist"
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        "none", description="of wire batches"
    )
    max_record: MaxRecord = Field(
        1_000_000,
        description="most bytes of one record; the cluster's message.max.bytes must allow it",
    )
    session_timeout: Annotated[Duration, Field(ge=1, le=1800)] = Field(
        30.0, description="after so much silence the group gives our partitions to somebody else"
    )
    instance_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")] | None = Field(
        None,
        description="static membership: a process that is back under its name within session_timeout "
        'gets its partitions back without a rebalance; one name a process, as in "${env:HOSTNAME}"',
    )
    in_flight: InFlight = Field(InFlight(), description="bounds of what has no answer yet")
