"""The settings of a Pulsar cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from app.brokers.security import ClientTls, OAuth2
from app.config.parts import InFlight, MaxRecord, Topics
from app.model.duration import Count
from app.model.route import Strict


class PulsarSecurity(Strict):
    """How connections are protected, and who we are. A client certificate in tls is a login too."""

    tls: ClientTls | None = Field(
        None, description="own authorities and client certificate; for pulsar+ssl:// and https://"
    )
    token: SecretStr | None = Field(
        None, description='JSON Web Token; best "${env:NAME}" or "${file:/path}"'
    )
    oauth2: OAuth2 | None = Field(None, description="tokens by OAuth 2")

    @model_validator(mode="after")
    def one_login(self) -> PulsarSecurity:
        if self.token is not None and self.oauth2 is not None:
            raise ValueError("token and oauth2 exclude each other: keep one of the two")
        return self


class PulsarBroker(Strict):
    """An Apache Pulsar cluster: partitioned topics, read under Failover subscriptions."""

    kind: Literal["pulsar"] = Field(description="pulsar")
    service_url: Annotated[str, Field(pattern=r"^pulsar(\+ssl)?://[^/?#@\s]+/?$")] = Field(
        description="pulsar://host:6650 or pulsar+ssl://host:6651; several hosts joined by commas"
    )
    admin_url: Annotated[str, Field(pattern=r"^https?://[^/?#@\s]+/?$")] = Field(
        description="http://host:8080 or https://host:8443: topics and owners are asked for there"
    )
    namespace: Annotated[str, Field(pattern=r"^[\w.=:-]+/[\w.=:-]+$")] = Field(
        "public/default", description="tenant/namespace of topics that name none"
    )
    client_id: Annotated[str, Field(min_length=1)] = Field(
        "skybridge", description="how the brokers' own logs name us"
    )
    security: PulsarSecurity = Field(PulsarSecurity(), description="TLS and login")
    topics: Topics = Field(Topics(), description="what happens to topics that do not exist")
    compression: Literal["none", "lz4", "zlib", "zstd", "snappy"] = Field(
        "none", description="of batches"
    )
    names: Literal["CE-", "ce_"] = Field(
        "CE-",
        description="how attributes are called in properties: CE-Id, or ce_id as on Kafka. One for all "
        "that is written to the cluster, whoever writes it: readers of a topic look for one. Read are both",
    )
    strings: Literal["bare", "json"] = Field(
        "bare",
        description="text in properties as it is, or quoted as JSON to the letter of the binding",
    )
    receiver_queue: Annotated[Count, Field(ge=1, le=10_000)] = Field(
        200, description="messages of one partition that are fetched ahead"
    )
    max_record: MaxRecord = Field(
        "4MiB",
        validate_default=True,
        description="most bytes of one record; the cluster's maxMessageSize must allow it",
    )
    client_log: Path | None = Field(
        None,
        description="file for what the client library says about itself; nowhere when left out",
    )
    in_flight: InFlight = Field(InFlight(), description="bounds of what has no answer yet")
