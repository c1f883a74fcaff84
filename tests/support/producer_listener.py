"""An events listener on TLS with producers of every kind, and a log that records what is published."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.access.who import ProducerDirectory
from app.gateway.door import AddressQuotas, Authenticator
from app.gateway.issuers import Issuers
from app.gateway.server import EventsServer
from app.gateway.tls import Tls
from app.interfaces import Clock
from app.interfaces.clock import SystemClock
from app.model.producer import Producer
from app.model.quota import EventQuota
from app.telemetry import Counters
from listening import listening, publishing
from raw_http import RawAnswer, RawConnection, request
from scripted_log import ScriptedLog

ROUTES = [
    {"name": "orders", "filters": [{"prefix": {"type": "com.example.order."}}], "to": {"broker": "log", "topic": "orders"}},
    {"name": "rest", "to": {"broker": "log", "topic": "rest"}},
]  # fmt: skip
MAY = {"routes": ["orders"], "sources": ["/shop/*"], "types": ["com.example.order.*"]}
KEY, OTHER_KEY, HEADER_KEY = (
    "the-key-of-the-shop-0",
    "the-key-of-the-shop-1",
    "the-key-of-the-till-0",
)
SAN = "spiffe://example/scanner"
Pairs = Sequence[tuple[str, str]]


def producers(issuer: str) -> list[dict[str, Any]]:
    return [
        {"name": "shop", "keys": [KEY, OTHER_KEY], "may": MAY},
        {"name": "till", "keys": [HEADER_KEY], "header": "X-Api-Key", "may": MAY},
        {"name": "warehouse", "jwt": {"issuer": issuer, "audience": "skybridge", "match": {"azp": "warehouse"}}, "may": MAY},
        {"name": "scanner", "certificate": {"san": SAN}, "may": MAY},
    ]  # fmt: skip


def bearer(credential: str) -> Pairs:
    return [("authorization", f"Bearer {credential}")]


@dataclass
class ProducerListener:
    """A running events listener with its producers, log and counters."""

    server: EventsServer
    log: ScriptedLog
    counters: Counters
    issuers: Issuers
    clock: Clock
    tls: ssl.SSLContext | None = None

    async def ask(self, raw: bytes, tls: ssl.SSLContext | None = None) -> RawAnswer:
        """Send a request on a new connection, and return the answer."""
        async with await RawConnection.open(self.server.port, tls or self.tls) as peer:
            await peer.send(raw)
            return await peer.answer()

    async def connection(self, tls: ssl.SSLContext | None = None) -> RawConnection:
        return await RawConnection.open(self.server.port, tls or self.tls)

    def apply_producers(
        self, listed: Sequence[Mapping[str, Any]], *, is_open: bool = False
    ) -> None:
        """Apply a new list of producers, as a reload does."""
        resource = self.server.resource
        before = {} if resource.door is None else resource.door.producers.callers
        made = ProducerDirectory([Producer.model_validate(each) for each in listed], before)
        door = Authenticator(made, self.issuers.of, self.clock, is_open=is_open)
        self.server.apply(msgspec.structs.replace(resource.policy, door=door))
        made.take_effect(self.clock.monotonic())


@asynccontextmanager
async def producer_house(
    listed: Sequence[Mapping[str, Any]],
    *,
    is_open: bool = False,
    address_quota: EventQuota | None = None,
    tls: Tls | None = None,
    clock: Clock | None = None,
    **bounds: Any,
) -> AsyncIterator[ProducerListener]:
    """Run a listener with these producers until the block ends.

    Args:
        listed: The producers, as in a configuration.
        is_open: Whether the listener also accepts anonymous requests.
        address_quota: The quota of each client address.
        tls: The TLS settings of the listener.
        clock: The clock of the listener.
        bounds: Limits of the listener.
    """
    clock = clock or SystemClock()
    log, counters, issuers = ScriptedLog(at_once=True), Counters(), Issuers(clock.monotonic)
    publisher = publishing(ROUTES, log, counters, monotonic=clock.monotonic)
    made = ProducerDirectory([Producer.model_validate(each) for each in listed])
    addresses = None if address_quota is None else AddressQuotas(address_quota)
    door = Authenticator(made, issuers.of, clock, is_open=is_open, addresses=addresses)
    async with listening(publisher, counters=counters, door=door, tls=tls, **bounds) as server:
        yield ProducerListener(server, log, counters, issuers, clock)
    await issuers.stop()


class Certificates:
    """A certificate authority with the certificates of the listener and of its clients."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        server = self._authority.issue_cert("localhost")
        (folder / "ca.pem").write_bytes(self._authority.cert_pem.bytes())
        (folder / "key.pem").write_bytes(server.private_key_pem.bytes())
        (folder / "cert.pem").write_bytes(b"".join(c.bytes() for c in server.cert_chain_pems))

    @property
    def tls(self) -> Tls:
        return Tls(
            certificate=self._folder / "cert.pem",
            key=self._folder / "key.pem",
            client_ca=self._folder / "ca.pem",
            demands_client=False,
        )

    def client(
        self, *uris: str, authority: trustme.CA | None = None, expired: bool = False
    ) -> ssl.SSLContext:
        """Return a client context that trusts the listener.

        Args:
            uris: The URIs in the client certificate. Without any, the client has no certificate.
            authority: The issuer of the certificate, if not the listener's authority.
            expired: Whether the certificate has expired.
        """
        # Without the authorities of the system, which take 30 ms to read.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._authority.configure_trust(context)
        if uris:
            both = self._folder / f"client-{len(list(self._folder.iterdir()))}.pem"
            both.write_bytes(_certificate(authority or self._authority, uris, expired=expired))
            context.load_cert_chain(both)
        return context


def _certificate(authority: trustme.CA, uris: Sequence[str], *, expired: bool) -> bytes:
    """Return a key and a certificate in PEM. trustme cannot issue certificates for URIs."""
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    signer: Any = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    begin, end = issuer.not_valid_before_utc, issuer.not_valid_after_utc
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a client")]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=1) if expired else end)
        .add_extension(names, critical=False)
        .add_extension(identifier, critical=False)
        .sign(signer, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private + made.public_bytes(serialization.Encoding.PEM)


def event_attributes(
    source: str = "/shop/1", kind: str = "com.example.order.made", number: int = 1
) -> dict[str, str]:
    return {"specversion": "1.0", "id": str(number), "source": source, "type": kind}


def request_in_mode(
    mode: str, event: Mapping[str, str], target: str, credential: Pairs = ()
) -> bytes:
    """Return a request with ``event`` in a content mode. A batch has an allowed event before it."""
    if mode == "binary":
        headers = [(f"ce-{name}", value) for name, value in event.items()]
        return request(
            target, b"{}", headers=[*headers, ("content-type", "application/json"), *credential]
        )
    if mode == "structured":
        body, kind = json.dumps(event), "application/cloudevents+json"
    else:
        body, kind = (
            json.dumps([event_attributes(number=0), event]),
            "application/cloudevents-batch+json",
        )
    return request(target, body.encode(), headers=[("content-type", kind), *credential])
