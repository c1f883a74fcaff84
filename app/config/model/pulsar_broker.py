"""The settings of a Pulsar cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, model_validator

from app.brokers.security import ClientTls, OAuth2
from app.config.model.parts import InFlight, MaxRecord, Topics, with_ports
from app.model.duration import Count
from app.model.route import Strict


class PulsarSecurity(Strict):
    """Protection of connections, and the login. A client certificate in tls is a login too."""

    tls: ClientTls | None = Field(
        None,
        description="private authorities and client certificate; for pulsar+ssl:// and https://",
    )
    token: SecretStr | None = Field(
        None, description='JSON Web Token; best "${env:NAME}" or "${file:/path}"'
    )
    oauth2: OAuth2 | None = Field(None, description="tokens by OAuth 2")

    @model_validator(mode="after")
    def one_login(self) -> PulsarSecurity:
        if self.token is not None and self.oauth2 is not None:
            raise ValueError(
                "The settings token and oauth2 exclude each other. Cure: Remove one of the two."
            )
        return self


class PulsarBroker(Strict):
    """An Apache Pulsar cluster: partitioned topics, read under Failover subscriptions."""

    kind: Literal["pulsar"] = Field(description="pulsar")
    service_url: Annotated[
        str, Field(pattern=r"^pulsar(\+ssl)?://[^/?#@\s]+/?$"), AfterValidator(with_ports)
    ] = Field(
        description="pulsar://host:6650 or pulsar+ssl://host:6651; several hosts joined by commas"
    )
    admin_url: Annotated[
        str, Field(pattern=r"^https?://[^/?#@\s]+/?$"), AfterValidator(with_ports)
    ] = Field(
        description="URL of the admin API, for topics and owners: http://host:8080 or "
        "https://host:8443; several hosts joined by commas and tried in turn"
    )
    namespace: Annotated[str, Field(pattern=r"^[\w.=:-]+/[\w.=:-]+$")] = Field(
        "public/default", description="tenant/namespace of topics without one in their name"
    )
    client_id: Annotated[str, Field(min_length=1)] = Field(
        "skybridge", description="name of Skybridge in the logs of the brokers"
    )
    security: PulsarSecurity = Field(PulsarSecurity(), description="TLS and login")
    topics: Topics = Field(Topics(), description="creation of missing topics")
    compression: Literal["none", "lz4", "zlib", "zstd", "snappy"] = Field(
        "none", description="compression of batches"
    )
    publisher: Literal["protocol", "client"] = Field(
        "protocol",
        description="what publishes: protocol, Skybridge's own implementation of Pulsar's binary protocol, at less than "
        "half the CPU; or client, the client library",
    )
    batching: Literal["none", "by_key", "mixed"] = Field(
        "none",
        description="records that the publisher protocol writes as one entry, if they wait at the same moment: none; those "
        "of one key; or any. Lag counts entries, and readers of type Key_Shared need none or by_key",
    )
    names: Literal["CE-", "ce_"] = Field(
        "CE-",
        description="prefix of attributes in properties: CE-Id, or ce_id as on Kafka. Use one "
        "for the whole cluster, because readers of a topic expect one. Skybridge "
        "reads both",
    )
    strings: Literal["bare", "json"] = Field(
        "bare",
        description="text in properties: plain, or quoted as JSON as the binding demands",
    )
    receiver_queue: Annotated[Count, Field(ge=1, le=10_000)] = Field(
        200,
        description="most messages of one partition fetched ahead, not counted in limits.held_bytes; "
        "lower it if messages are large",
    )
    max_record: MaxRecord = Field(
        "4MiB",
        validate_default=True,
        description="most bytes of one record; the cluster's maxMessageSize must allow it",
    )
    client_log: Path | None = Field(
        None,
        description="file for the client library's own log; by default it is discarded",
    )
    in_flight: InFlight = Field(InFlight(), description="bounds of records without an answer yet")
