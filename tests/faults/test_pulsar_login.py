"""Security settings against a Pulsar that asks for them: TLS with its own authority, client certificates,
tokens, tokens by OAuth 2, rights."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import trustme

from app.brokers.portable import PortableLog
from app.brokers.security import ClientTls, OAuth2
from app.errors import BrokerError, BrokerRefused
from app.model.start import EARLIEST
from authority import Authority
from contract_tools import bodies, fresh_group, publish, running, take, text
from free_ports import free_ports
from pulsar_harness import open_calm_log
from pulsar_server import PulsarServer
from token_issuer import TokenIssuer, signed_token

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.pulsar,
    pytest.mark.fault,
    pytest.mark.usefixtures("patient_probes"),
]

SECRET = b"a secret of at least two hundred and fifty-six bits, for HS256"
PACKAGE = "org.apache.pulsar"
PROVIDERS = ",".join(
    f"{PACKAGE}.broker.authentication.AuthenticationProvider{kind}" for kind in ("Tls", "Token")
)


class Guarded(NamedTuple):
    """A server that speaks TLS beside plain text, and asks everybody for a token or a certificate."""

    server: PulsarServer
    authority: Authority
    tls_urls: tuple[str, str]

    @property
    def ca(self) -> str:
        return self.authority.ca

    @property
    def urls(self) -> tuple[str, str]:
        return self.server.service_url, self.server.admin_url


def token_of(subject: str, secret: bytes = SECRET) -> str:
    return signed_token(secret, sub=subject)


@pytest.fixture(scope="module")
def guarded(pulsar: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """``pulsar`` skips or fails where there is none to be had."""
    authority = Authority(tmp_path_factory.mktemp("pulsar-tls"))
    tls_port, web_tls_port = free_ports(2)
    server = PulsarServer(_settings(authority, tls_port, web_tls_port), headers=_as("admin"))
    urls = f"pulsar+ssl://127.0.0.1:{tls_port}", f"https://127.0.0.1:{web_tls_port}"
    try:
        server.start()
        yield Guarded(server, authority, urls)
    finally:
        server.stop()


def _as(subject: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token_of(subject)}"}


def _settings(authority: Authority, tls_port: int, web_tls_port: int) -> dict[str, str]:
    certificate, key = authority.server("127.0.0.1", "localhost")
    return {
        "authenticationEnabled": "true",
        "authenticationProviders": PROVIDERS,
        "authorizationEnabled": "true",
        "superUserRoles": "admin",
        "tokenSecretKey": f"data:;base64,{base64.b64encode(SECRET).decode()}",
        "brokerClientAuthenticationPlugin": f"{PACKAGE}.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{token_of('admin')}",
        "brokerServicePortTls": str(tls_port),
        "webServicePortTls": str(web_tls_port),
        "tlsCertificateFilePath": certificate,
        "tlsKeyFilePath": key,
        "tlsTrustCertsFilePath": authority.ca,
    }


@asynccontextmanager
async def logged_in(urls: tuple[str, str], **security: Any) -> AsyncIterator[PortableLog]:
    log = open_calm_log(name="main", service_url=urls[0], admin_url=urls[1], **security)
    async with running(log):
        yield log


async def test_events_pass_over_tls_with_a_token(guarded: Guarded) -> None:
    """Both faces of the cluster: the binary protocol and the administration."""
    tls = ClientTls(ca=guarded.ca)
    async with logged_in(guarded.tls_urls, tls=tls, token=token_of("admin")) as log:
        await passes(log)


async def passes(log: PortableLog) -> None:
    """Both faces: the administration makes a topic, the binary protocol carries an event."""
    topic = f"t-{uuid4().hex[:12]}"
    await log.create_topic(topic, 1)
    await publish(log, topic, [text("secret", "k")])
    consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
    assert bodies(await take(consumer, 1)) == [b"secret"]
    assert (await log.health()).healthy
    await consumer.close()


async def refused(log: PortableLog) -> str:
    """The words in which both readiness and a publisher are told that we are nobody."""
    health = await log.health()
    (result,) = await log.submit("anything", [text("x")])
    assert not health.healthy
    assert isinstance(result, BrokerRefused)
    assert result.kind == "not-authorised"
    return f"{health.cause} {result}"


async def test_events_pass_with_a_client_certificate(guarded: Guarded) -> None:
    """Mutual TLS is a login: whom the certificate names is who we are."""
    certificate, key = guarded.authority.client("admin")
    tls = ClientTls(ca=guarded.ca, cert=certificate, key=key)
    async with logged_in(guarded.tls_urls, tls=tls) as log:
        await passes(log)


async def test_no_certificate_and_no_token_is_nobody(guarded: Guarded) -> None:
    """Encryption alone lets nobody in."""
    async with logged_in(guarded.tls_urls, tls=ClientTls(ca=guarded.ca)) as log:
        assert "401" in await refused(log)


async def test_a_certificate_of_somebody_without_rights_is_refused(guarded: Guarded) -> None:
    """Authenticated is not authorised (spec 9)."""
    certificate, key = guarded.authority.client("nobody")
    tls = ClientTls(ca=guarded.ca, cert=certificate, key=key)
    async with logged_in(guarded.tls_urls, tls=tls) as log:
        assert "Unauthorized to validateTopicOperation" in await refused(log)


async def test_a_certificate_that_somebody_else_signed_does_not_let_us_in(
    guarded: Guarded, tmp_path: Path
) -> None:
    """The broker ends the handshake: not reachable, and never stored."""
    certificate, key = Authority(tmp_path).client("admin")
    tls = ClientTls(ca=guarded.ca, cert=certificate, key=key)
    async with logged_in(guarded.tls_urls, tls=tls) as log:
        assert not (await log.health()).healthy
        (result,) = await log.submit("anything", [text("x")])
    assert isinstance(result, BrokerError)


@pytest.fixture
def issuer() -> Iterator[TokenIssuer]:
    with TokenIssuer(SECRET, {"admin": "hush", "nobody": "hush too"}) as issuer:
        yield issuer


def credentials(folder: Path, issuer: TokenIssuer, name: str, secret: str) -> OAuth2:
    path = folder / "credentials.json"
    path.write_text(json.dumps({"client_id": name, "client_secret": secret}))
    return OAuth2(issuer_url=issuer.address, credentials=str(path), audience="pulsar")


async def test_events_pass_with_tokens_by_client_credentials(
    guarded: Guarded, issuer: TokenIssuer, tmp_path: Path
) -> None:
    """OAuth 2 for both faces: the client library asks for its token, the administration for its own."""
    oauth2 = credentials(tmp_path, issuer, "admin", "hush")
    async with logged_in(guarded.urls, oauth2=oauth2) as log:
        await passes(log)
    assert len(issuer.granted) >= 2
    assert len(issuer.granted) <= 4, "a token is kept until it ends"


async def test_a_token_is_asked_for_again_before_it_ends(
    guarded: Guarded, issuer: TokenIssuer, tmp_path: Path
) -> None:
    """A token of an hour must not end our work after an hour."""
    issuer.lasting = 10  # less than we renew before its end
    oauth2 = credentials(tmp_path, issuer, "admin", "hush")
    async with logged_in(guarded.urls, oauth2=oauth2) as log:
        assert (await log.health()).healthy
        before = len(issuer.granted)
        assert (await log.health()).healthy
        assert len(issuer.granted) > before


async def test_a_wrong_secret_is_told_in_the_issuers_words(
    guarded: Guarded, issuer: TokenIssuer, tmp_path: Path
) -> None:
    """Readiness says who refuses, and never the secret (reliability R20, S12)."""
    oauth2 = credentials(tmp_path, issuer, "admin", "not-the-secret")
    async with logged_in(guarded.urls, oauth2=oauth2) as log:
        words = await refused(log)
    assert "invalid_client the client id or its secret is wrong" in words
    assert issuer.address in words
    assert "not-the-secret" not in words
    assert not issuer.granted


async def test_a_granted_token_without_rights_is_refused_by_the_broker(
    guarded: Guarded, issuer: TokenIssuer, tmp_path: Path
) -> None:
    """The issuer knows us and the broker does not let us: its words, not the issuer's."""
    oauth2 = credentials(tmp_path, issuer, "nobody", "hush too")
    async with logged_in(guarded.urls, oauth2=oauth2) as log:
        assert "Unauthorized to validateTopicOperation" in await refused(log)


async def test_a_certificate_of_a_stranger_is_not_believed(
    guarded: Guarded, tmp_path: Path
) -> None:
    """Who is not the server that we mean gets no token (reliability S15)."""
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    tls = ClientTls(ca=str(tmp_path / "other.pem"))
    async with logged_in(guarded.tls_urls, tls=tls, token=token_of("admin")) as log:
        health = await log.health()
    assert not health.healthy
    assert "CERTIFICATE_VERIFY_FAILED" in health.cause


@pytest.mark.parametrize("token", [None, token_of("admin", b"x" * 64)])
async def test_a_wrong_token_is_told_as_such(guarded: Guarded, token: str | None) -> None:
    """Readiness says why, and does not say the token (reliability R20, S12)."""
    async with logged_in(guarded.urls, token=token) as log:
        words = await refused(log)
    assert "401" in words
    assert token is None or token not in words


async def test_who_has_no_right_to_a_topic_is_refused_with_the_brokers_words(
    guarded: Guarded,
) -> None:
    """Authenticated is not authorised: 403 (spec 9)."""
    async with logged_in(guarded.urls, token=token_of("admin")) as log:
        topic = f"t-{uuid4().hex[:12]}"
        await log.create_topic(topic, 1)
    async with logged_in(guarded.urls, token=token_of("nobody")) as log:
        (result,) = await log.submit(topic, [text("x")])
        assert isinstance(result, BrokerRefused)
        assert result.kind == "not-authorised"
        with pytest.raises(BrokerRefused) as refused:
            await log.subscribe(fresh_group(), [topic], EARLIEST)
        assert refused.value.kind == "not-authorised"


async def test_an_address_where_nobody_listens_is_told_as_such() -> None:
    """No crash, no wait for ever: a cause (reliability R20)."""
    ports = free_ports(2)
    urls = f"pulsar://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
    async with logged_in(urls) as log:
        health = await log.health()
    assert not health.healthy
    assert "cannot be reached" in health.cause


async def test_a_host_that_nobody_knows_is_told_as_such() -> None:
    """A typing error in the configuration must not read like an outage of the broker."""
    async with logged_in(
        ("pulsar://no.such.host.invalid:6650", "http://no.such.host.invalid")
    ) as log:
        health = await log.health()
        (result,) = await log.submit("anything", [text("x")])
    assert not health.healthy
    assert "cannot be reached" in health.cause
    assert result is not None
    assert "cannot be reached" in str(result)
