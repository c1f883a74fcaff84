"""The settings of a Kafka cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from app.brokers.security import ClientTls
from app.config.model.parts import InFlight, MaxRecord, Servers, Topics
from app.model.duration import Count, Duration
from app.model.route import Strict


class OAuth(Strict):
    """Access tokens by OAuth 2 client credentials, for OAUTHBEARER. They are renewed before they
    expire.
    """

    token_endpoint: Annotated[str, Field(pattern=r"^https?://[^/?#]")] = Field(
        description="URL of the token endpoint; https, except on loopback"
    )
    client_id: str = Field(description="client id of Skybridge there")
    client_secret: SecretStr = Field(description='best "${env:NAME}" or "${file:/path}"')
    scope: str | None = Field(None, description="requested scope, if the server needs one")


class Sasl(Strict):
    """The login at Kafka."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        description="SASL mechanism"
    )
    username: str | None = Field(None, description="user name; not for OAUTHBEARER")
    password: SecretStr | None = Field(
        None, description='password; best "${env:NAME}" or "${file:/path}"; not for OAUTHBEARER'
    )
    oauth: OAuth | None = Field(None, description="OAUTHBEARER: where tokens are granted")
    token: SecretStr | None = Field(
        None, description='OAUTHBEARER: a fixed token, best "${file:/path}"'
    )
    token_file: Path | None = Field(
        None,
        description="OAUTHBEARER: file of a token that another program renews; read for each "
        "connection",
    )

    @model_validator(mode="after")
    def credentials_fit(self) -> Sasl:
        user = (self.username, self.password)
        bearer = [name for name in ("oauth", "token", "token_file") if getattr(self, name)]
        if self.mechanism != "OAUTHBEARER":
            if bearer:
                raise ValueError(
                    f"The setting {bearer[0]} is only for the mechanism OAUTHBEARER. Cure: Remove {bearer[0]}."
                )
            if None in user:
                raise ValueError(
                    f"The mechanism {self.mechanism} needs username and password. Cure: Set both."
                )
        elif user != (None, None):
            raise ValueError(
                "The mechanism OAUTHBEARER has no username and password. Cure: Remove them."
            )
        elif len(bearer) != 1:
            raise ValueError(
                "The mechanism OAUTHBEARER needs a token. Cure: Set exactly one of oauth, token and token_file."
            )
        return self


class Security(Strict):
    """Protection of the connection. By default ``protocol`` follows from sasl and tls."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None = Field(
        None, description="by default it follows from sasl and tls"
    )
    sasl: Sasl | None = Field(None, description="how to log in")
    tls: ClientTls | None = Field(None, description="TLS; {} for the system's authorities")

    @model_validator(mode="after")
    def protocol_fits(self) -> Security:
        if self.protocol is None:
            return self
        if self.protocol.startswith("SASL") != (self.sasl is not None):
            raise ValueError(
                "The settings protocol and sasl contradict each other. Cure: Remove protocol."
            )
        if self.tls is not None and "SSL" not in self.protocol:
            raise ValueError(
                "The settings protocol and tls contradict each other. Cure: Remove protocol."
            )
        return self

    @property
    def encryption(self) -> ClientTls | None:
        """Return the TLS settings in force, or None for an unencrypted connection."""
        if self.protocol in {"SSL", "SASL_SSL"}:
            return self.tls or ClientTls()
        return self.tls


class ReplicatedTopics(Topics):
    """Creation of missing topics."""

    replication: Annotated[Count, Field(ge=1, le=32)] = Field(
        1, description="replicas of topics that Skybridge creates"
    )


class KafkaBroker(Strict):
    """An Apache Kafka cluster. Publishing waits for all in-sync replicas and is idempotent."""

    kind: Literal["kafka"] = Field(description="kafka")
    bootstrap_servers: Servers = Field(
        description="host:port, several joined by commas or as a list"
    )
    client_id: Annotated[str, Field(min_length=1)] = Field(
        "skybridge", description="name of Skybridge in the logs of the brokers"
    )
    security: Security = Field(Security(), description="TLS and login")
    topics: ReplicatedTopics = Field(ReplicatedTopics(), description="creation of missing topics")
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        "none", description="compression of batches on the wire"
    )
    max_record: MaxRecord = Field(
        1_000_000,
        description="most bytes of one record; the cluster's message.max.bytes must allow it",
    )
    session_timeout: Annotated[Duration, Field(ge=1, le=1800)] = Field(
        30.0,
        description="a member that is silent for longer is removed from the group, which "
        "rebalances",
    )
    instance_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")] | None = Field(
        None,
        description="static membership: a process that returns under its name within session_timeout gets its "
        "partitions back without a rebalance. Each process needs its own name, such as "
        '"${env:HOSTNAME}"',
    )
    in_flight: InFlight = Field(InFlight(), description="bounds of records without an answer yet")
