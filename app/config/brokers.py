"""The settings of each kind of broker, and of the store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from app.model.duration import Count, Duration, Size
from app.model.route import Strict


class InFlight(Strict):
    """Bounds on what was given to one broker and has no answer yet."""

    records: Annotated[Count, Field(ge=1)] | None = Field(
        None, description="most records in flight; without it limits.in_flight_records"
    )
    bytes: Annotated[Size, Field(ge=1)] | None = Field(
        None, description="most bytes in flight; without it limits.in_flight_bytes"
    )


class Retention(Strict):
    """What the embedded log may drop. Without a bound it keeps everything."""

    age: Duration | None = Field(None, description="drop what is older")
    size: Size | None = Field(None, description="of one partition: drop the oldest beyond it")


class EmbeddedBroker(Strict):
    """The durable log inside Skybridge: one folder, nothing to install."""

    kind: Literal["embedded"] = Field(description="embedded")
    path: Path = Field(description="folder of the log; one process at a time")
    partitions: Annotated[Count, Field(ge=1, le=1024)] = Field(
        8, description="of topics that come to be by their first event"
    )
    retention: Retention = Field(Retention(), description="what may be dropped, by age and size")
    size_cap: Size | None = Field(
        None, description="most bytes on disk; when it is reached, events are answered 503"
    )
    drop_unread: bool = Field(
        False, description="retention may drop what a declared subscription has not read yet"
    )
    in_flight: InFlight = Field(InFlight(), description="bounds of what has no answer yet")


class Sasl(Strict):
    """How to log in to Kafka."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        description="SASL mechanism"
    )
    username: str = Field(description="user name")
    password: SecretStr = Field(description='password; best "${env:NAME}" or "${file:/path}"')


class ClientTls(Strict):
    """TLS towards a broker. Empty: the system's certificate authorities."""

    ca: Path | None = Field(None, description="PEM file of the authorities to trust")
    cert: Path | None = Field(None, description="PEM file of our certificate, for mutual TLS")
    key: Path | None = Field(None, description="PEM file of its key, without a pass phrase")
    verify_host: bool = Field(True, description="the broker's certificate must bear its host name")

    @model_validator(mode="after")
    def cert_with_key(self) -> ClientTls:
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key come together")
        return self


class Security(Strict):
    """How the connection is protected. ``protocol`` follows from sasl and tls where it is not given."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None = Field(
        None, description="follows from sasl and tls when left out"
    )
    sasl: Sasl | None = Field(None, description="user and password")
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


class Topics(Strict):
    """What happens to topics that do not exist."""

    create: bool = Field(False, description="make topics that are not there")
    partitions: Annotated[Count, Field(ge=1)] = Field(8, description="of topics made by us")
    replication: Annotated[Count, Field(ge=1, le=32)] = Field(
        1, description="copies of topics made by us"
    )


def _joined(value: object) -> object:
    if isinstance(value, list) and all(isinstance(server, str) for server in value):
        return ",".join(value)
    return value


class KafkaBroker(Strict):
    """An Apache Kafka cluster. Publishing waits for all in-sync replicas and is idempotent."""

    kind: Literal["kafka"] = Field(description="kafka")
    bootstrap_servers: Annotated[
        str,
        BeforeValidator(_joined, json_schema_input_type=str | list[str]),
        Field(pattern=r"^\s*[^,\s]+:\d{1,5}(\s*,\s*[^,\s]+:\d{1,5})*\s*$"),
    ] = Field(description="host:port, several joined by commas or as a list")
    client_id: Annotated[str, Field(min_length=1)] = Field(
        "skybridge", description="how the brokers' own logs name us"
    )
    security: Security = Field(Security(), description="TLS and login")
    topics: Topics = Field(Topics(), description="what happens to topics that do not exist")
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        "none", description="of wire batches"
    )
    in_flight: InFlight = Field(InFlight(), description="bounds of what has no answer yet")


Broker = Annotated[EmbeddedBroker | KafkaBroker, Field(discriminator="kind")]


class SqliteStore(Strict):
    """Dead letters and the like in one SQLite file: for one process."""

    kind: Literal["sqlite"] = Field(description="sqlite")
    path: Path = Field(description="file of the store")
