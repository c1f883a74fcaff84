"""The settings of a producer: its credentials, its rights and its quota."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from app.model.quota import EventQuota
from app.model.route import Name, Strict
from app.model.secret import Secret

ISSUER = r"^https?://[^\s?#]+$"
HEADER = r"^[A-Za-z0-9][A-Za-z0-9-]*$"


def _ends_in_star(pattern: str) -> str:
    if "*" in pattern[:-1]:
        raise ValueError(
            "The pattern has a * before its end. Cure: Write an exact text, or a prefix with a * at its end."
        )
    return pattern


Pattern = Annotated[str, Field(min_length=1), AfterValidator(_ends_in_star)]
"""An exact text, or a prefix followed by ``*``, which matches any characters, ``/`` too, or none."""
Patterns = Annotated[tuple[Pattern, ...], Field(min_length=1)]
EVERYTHING = ("*",)


class May(Strict):
    """The events that a producer may send. Each list defaults to everything."""

    routes: Patterns = Field(
        EVERYTHING,
        description="names of routes that its events may take, or prefixes followed by *",
    )
    sources: Patterns = Field(
        EVERYTHING,
        description="values of source that its events may have, or prefixes followed by *",
    )
    types: Patterns = Field(
        EVERYTHING, description="values of type that its events may have, or prefixes followed by *"
    )
    keys: Patterns = Field(
        EVERYTHING,
        description="record keys that its events may have, from any key mapper, or prefixes followed by *; an event "
        "without a key is always permitted",
    )


class JwtRule(Strict):
    """The tokens of an OpenID Connect issuer that identify this producer."""

    issuer: Annotated[str, Field(pattern=ISSUER)] = Field(
        description="the issuer: value of the claim iss, and the URL of its OpenID discovery"
    )
    audience: Annotated[str, Field(min_length=1)] = Field(
        description="the value that claim aud must be or contain"
    )
    match: Annotated[dict[str, str | int | bool], Field(min_length=1)] = Field(
        description="claims of this producer with their values: {azp: warehouse}; a claim that is a "
        "list must contain the value"
    )
    jwks: Path | None = Field(
        None, description="file of the issuer's keys (JWK Set); absent: OpenID discovery"
    )


class Certificate(Strict):
    """The client certificates that identify this producer."""

    san: Annotated[str, Field(min_length=1)] = Field(
        description="a subject alternative name of the certificate: a URI (spiffe://example/scanner), "
        "DNS name, address or e-mail address; needs server.events.tls.client_ca"
    )


class KafkaRights(Strict):
    """Login and rights on the Kafka listeners of embedded logs. Each list defaults to nothing."""

    password: Secret = Field(description="password of the user that has the producer's name")
    write: tuple[Pattern, ...] = Field(
        (), description="topics to write to, or prefixes followed by *"
    )
    read: tuple[Pattern, ...] = Field((), description="topics to read, or prefixes followed by *")
    groups: tuple[Pattern, ...] = Field(
        (), description="consumer groups to join and commit for, or prefixes followed by *"
    )
    delete: tuple[Pattern, ...] = Field(
        (),
        description="topics to delete with their records, or prefixes followed by *; a topic that the user "
        "created and that is empty needs no such right",
    )


class Producer(Strict):
    """A sender of events that is identified by a credential."""

    name: Name = Field(description="name in metrics, errors and status")
    keys: Annotated[tuple[Secret, ...], Field(max_length=2)] = Field(
        (),
        description='API keys, two at most, for rotation; best "${env:NAME}" or "${file:/path}"',
    )
    header: Annotated[str, Field(pattern=HEADER)] | None = Field(
        None, description="header that carries the key; absent: Authorization: Bearer KEY"
    )
    jwt: JwtRule | None = Field(
        None, description="identifies the producer by a JSON Web Token (OpenID Connect)"
    )
    certificate: Certificate | None = Field(
        None, description="identifies the producer by a client certificate"
    )
    kafka: KafkaRights | None = Field(
        None, description="login and rights at Kafka listeners; absent: it may not log in"
    )
    may: May = Field(May(), description="the events that it may send")
    quota: EventQuota | None = Field(
        None, description="most events that it may send; absent: no limit"
    )

    @property
    def posts(self) -> bool:
        """Return True if the producer has a credential for HTTP."""
        return bool(self.keys) or self.jwt is not None or self.certificate is not None
