"""Find the producer of a credential.

Keys are stored as digests. A key is found by looking up its digest, not by comparing keys. So the time that a
lookup takes reveals nothing about a key.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from app.access.caller import EventSender
from app.access.rights import KafkaAccess, compile_patterns
from app.model.producer import JwtRule, KafkaRights, Producer

AUTHORIZATION = b"authorization"
BEARER = b"Bearer "
San = tuple[str, str]
"""A subject alternative name: its kind as Python names it (``URI``, ``DNS``, ``IP Address``,
``email``) and its text.
"""


def digest_of(credential: bytes) -> bytes:
    """Return the SHA-256 digest of a credential."""
    return hashlib.sha256(credential).digest()


def header_of(producer: Producer) -> bytes:
    """Return the name of the header that carries the producer's key, in lower case."""
    return AUTHORIZATION if producer.header is None else producer.header.lower().encode()


def san_of(text: str) -> San:
    """Return a subject alternative name from its text. A URI has ``:`` and ``/``, an e-mail address
    has ``@``.
    """
    if "/" in text and ":" in text:
        return "URI", text
    if "@" in text:
        return "email", text
    try:
        return "IP Address", str(ipaddress.ip_address(text))
    except ValueError:
        return "DNS", text.lower()


def sans_of(certificate: Mapping[str, Any]) -> tuple[San, ...]:
    """Return the subject alternative names of a certificate. ``certificate`` has the form that Python's
    ``ssl`` returns."""
    return tuple(_san(kind, text) for kind, text in certificate.get("subjectAltName", ()))


def _san(kind: str, text: str) -> San:
    if kind == "IP Address":
        try:
            return kind, str(ipaddress.ip_address(text.strip()))
        except ValueError:
            return kind, text
    return kind, text.lower() if kind == "DNS" else text


class TokenRule(NamedTuple):
    """A rule that finds the caller of a token: each claim in ``rule.match`` must have the value that the rule
    gives.
    """

    rule: JwtRule
    caller: EventSender

    def matches(self, claims: Mapping[str, Any]) -> bool:
        """Return True if the claims have all values of the rule."""
        return all(
            claim_matches(claims.get(name), value) for name, value in self.rule.match.items()
        )


def claim_matches(claim: object, value: str | int | bool) -> bool:
    """Return True if a claim equals the value, or is a list that contains it. ``true`` does not
    equal 1.
    """
    values = claim if isinstance(claim, list) else [claim]
    return any(type(each) is type(value) and each == value for each in values)


class ProducerDirectory:
    """The producers of one configuration, indexed by credential.

    Attributes:
        callers: The callers by name.
        bearers: The callers by the digest of ``Bearer KEY``.
        headers: The headers that carry keys, in addition to Authorization.
        kafka: The rights of users of Kafka listeners, by name.
        rules: The rules that find the caller of a token.
        posts: Whether any producer has a credential for HTTP.
        required: Whether only producers may send events.
    """

    def __init__(
        self,
        producers: Sequence[Producer],
        before: Mapping[str, EventSender] = MappingProxyType({}),
        *,
        required: bool = False,
    ) -> None:
        """Index the producers. ``before`` has the callers of the previous configuration by name."""
        self.required = required
        self.callers = {
            each.name: EventSender.of(each, before.get(each.name)) for each in producers
        }
        self.bearers = {
            digest_of(BEARER + key.get_secret_value().encode()): self.callers[each.name]
            for each in producers
            if each.header is None
            for key in each.keys
        }
        self._by_key = {
            (header_of(each), digest_of(key.get_secret_value().encode())): self.callers[each.name]
            for each in producers
            if each.header is not None
            for key in each.keys
        }
        self.kafka = {
            each.name: (_kafka_access(each.kafka), self.callers[each.name])
            for each in producers
            if each.kafka is not None
        }
        self.headers = tuple(dict.fromkeys(_own_headers(producers)))
        self._by_san = {
            san_of(each.certificate.san): self.callers[each.name]
            for each in producers
            if each.certificate is not None
        }
        self.rules = tuple(
            TokenRule(each.jwt, self.callers[each.name])
            for each in producers
            if each.jwt is not None
        )
        self.posts = any(each.posts for each in producers)

    def take_effect(self, now: float) -> None:
        """Apply the quotas of these producers. Events that a producer sent earlier still count."""
        for caller in self.callers.values():
            caller.take_effect(now)

    def by_key(self, header: bytes, digest: bytes) -> EventSender | None:
        """Return the caller whose key has this digest. ``header`` is the name of the header with the key.
        None means that the key is unknown.
        """
        return self._by_key.get((header, digest))

    def by_certificate(self, names: Iterable[San]) -> list[EventSender]:
        """Return the callers that have one of these names of a certificate: none, one, or several."""
        found = (self._by_san.get(name) for name in names)
        return list(dict.fromkeys(each for each in found if each is not None))

    def by_claims(self, issuer: str, claims: Mapping[str, Any]) -> list[EventSender]:
        """Return the callers with a token rule that the claims of a verified token meet: none, one, or
        several.
        """
        return [
            each.caller
            for each in self.rules
            if each.rule.issuer == issuer
            and claim_matches(claims.get("aud"), each.rule.audience)
            and each.matches(claims)
        ]


def _kafka_access(rights: KafkaRights) -> KafkaAccess:
    return KafkaAccess(
        compile_patterns(rights.write),
        compile_patterns(rights.read),
        compile_patterns(rights.groups),
        compile_patterns(rights.delete),
    )


def _own_headers(producers: Iterable[Producer]) -> Iterator[bytes]:
    for each in producers:
        if each.keys and each.header is not None:
            yield header_of(each)
