"""Every way into Kafka, and what is said when it is shut: an operator must not look for the wrong fault,
and nothing may be shown that is secret."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.brokers.kafka import OAuthBearer, SaslCredentials
from app.brokers.portable import PortableLog
from app.brokers.security import ClientTls
from app.config.model.brokers import OAuth as OAuthSettings
from app.errors import BrokerError
from app.features.tokens import GrantedTokens
from app.model.start import EARLIEST
from authority import Authority
from broker_senders import assert_works
from contract_tools import PATIENCE, fresh_group, text
from free_ports import free_ports
from kafka_harness import open_calm_log
from kafka_secure import PASSWORD, USER, SecureKafka, token
from publishing_service import PublishingService
from waiting import until
from webhook_target import WebhookTarget, status

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.kafka,
    pytest.mark.fault,
    pytest.mark.usefixtures("patient_probes"),
]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded(kafka: str, authority: Authority) -> Iterator[SecureKafka]:
    """``kafka`` skips or fails where there is none to be had."""
    server = SecureKafka(authority)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@asynccontextmanager
async def opened(address: str, **settings: Any) -> AsyncIterator[PortableLog]:
    """The sockets of connections that were refused close a moment later, when TLS has said goodbye."""
    before = _sockets()
    log = open_calm_log(name="main", bootstrap_servers=address, **settings)
    await log.start()
    try:
        yield log
    finally:
        await log.stop()
        await until(lambda: _sockets() <= before)


def _sockets() -> int:
    """How many this event loop watches."""
    loop: Any = asyncio.get_running_loop()
    return len(loop._selector.get_map())


async def kept_out(log: PortableLog, words: str) -> None:
    """Readiness says why in the broker's words; whoever publishes or subscribes is told at once."""
    health = await log.health()
    assert not health.healthy
    assert words in health.cause
    assert PASSWORD not in health.cause
    (result,) = await log.submit("t", [text("x")])
    assert isinstance(result, BrokerError)
    assert words in str(result)
    with pytest.raises(BrokerError):
        await log.subscribe(fresh_group(), ["t"], EARLIEST)


async def heals(log: PortableLog) -> None:
    """Without a restart of ours (reliability R20)."""
    async with asyncio.timeout(PATIENCE):
        while not (await log.health()).healthy:
            await asyncio.sleep(0.05)
    await assert_works(log)


def login(mechanism: str, password: str = PASSWORD) -> SaslCredentials:
    return SaslCredentials(mechanism=mechanism, username=USER, password=password)


def bearer(path: Path) -> OAuthBearer:
    """The token is read from the file each time."""

    async def source() -> str:
        return path.read_text()

    return OAuthBearer(token=source)


class TestTls:
    async def test_an_authority_of_ones_own(
        self, guarded: SecureKafka, authority: Authority
    ) -> None:
        async with opened(guarded.address("tls"), tls=ClientTls(ca=authority.ca)) as log:
            await assert_works(log)

    async def test_a_client_certificate_lets_in_and_none_does_not(
        self, guarded: SecureKafka, authority: Authority
    ) -> None:
        """Mutual TLS. TLS 1.3 lets a client believe that it is connected before it is refused."""
        certificate, key = authority.client(USER)
        tls = ClientTls(ca=authority.ca, cert=certificate, key=key)
        async with opened(guarded.address("mutual"), tls=tls) as log:
            await assert_works(log)
        async with opened(guarded.address("mutual"), tls=ClientTls(ca=authority.ca)) as log:
            await kept_out(log, "certificate")

    async def test_a_certificate_for_another_host_is_refused_unless_it_is_told_not_to_look(
        self, guarded: SecureKafka, authority: Authority
    ) -> None:
        address = guarded.address("elsewhere")
        async with opened(address, tls=ClientTls(ca=authority.ca)) as log:
            await kept_out(log, "IP address mismatch")
        async with opened(address, tls=ClientTls(ca=authority.ca, verify_host=False)) as log:
            await assert_works(log)

    async def test_an_untrusted_authority_is_named_until_the_right_one_is_put_in_place(
        self, guarded: SecureKafka, authority: Authority, tmp_path: Path
    ) -> None:
        """The file is read anew for each connection, so whoever replaces it need not restart us."""
        ca = tmp_path / "trusted.pem"
        stranger = tmp_path / "stranger"
        stranger.mkdir()
        shutil.copy(Authority(stranger).ca, ca)
        async with opened(guarded.address("tls"), tls=ClientTls(ca=str(ca))) as log:
            await kept_out(log, "CERTIFICATE_VERIFY_FAILED")
            shutil.copy(authority.ca, ca)
            await heals(log)


class TestLogins:
    @pytest.mark.parametrize("listener", ["sasl", "saslssl"])
    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    async def test_the_right_password_lets_in_and_a_wrong_one_is_told_as_such(
        self, guarded: SecureKafka, authority: Authority, listener: str, mechanism: str
    ) -> None:
        address, tls = guarded.address(listener), ClientTls(ca=authority.ca)
        with_tls = {"tls": tls} if listener == "saslssl" else {}
        async with opened(address, sasl=login(mechanism), **with_tls) as log:
            await assert_works(log)
        async with opened(address, sasl=login(mechanism, "mistaken"), **with_tls) as log:
            await kept_out(log, "SaslAuthenticationFailed")
            assert "mistaken" not in (await log.health()).cause

    async def test_it_gets_in_by_itself_when_the_password_is_made_right(
        self, guarded: SecureKafka
    ) -> None:
        """Whoever mends the broker need not restart the bridge (R20)."""
        await asyncio.to_thread(guarded.set_password, "late", "wrong")
        sasl = SaslCredentials(mechanism="SCRAM-SHA-256", username="late", password=PASSWORD)
        async with opened(guarded.address("sasl"), sasl=sasl) as log:
            await kept_out(log, "SaslAuthenticationFailed")
            await asyncio.to_thread(guarded.set_password, "late", PASSWORD)
            await heals(log)


class TestTokens:
    @pytest.mark.parametrize("listener", ["sasl", "saslssl"])
    async def test_a_token_lets_in(
        self, guarded: SecureKafka, authority: Authority, tmp_path: Path, listener: str
    ) -> None:
        """SASL OAUTHBEARER (RFC 7628)."""
        path = tmp_path / "token"
        path.write_text(token())
        with_tls = {"tls": ClientTls(ca=authority.ca)} if listener == "saslssl" else {}
        async with opened(guarded.address(listener), sasl=bearer(path), **with_tls) as log:
            await assert_works(log)

    async def test_an_expired_token_is_told_as_such_until_a_new_one_is_there(
        self, guarded: SecureKafka, tmp_path: Path
    ) -> None:
        path = tmp_path / "token"
        path.write_text(token(lasts=-60.0))
        async with opened(guarded.address("sasl"), sasl=bearer(path)) as log:
            await kept_out(log, "invalid_token")
            path.write_text(token())
            await heals(log)

    async def test_a_token_that_a_server_grants_lets_in(self, guarded: SecureKafka) -> None:
        """OAuth 2 client credentials (RFC 6749 4.4): asked for once for all of our connections."""
        granted = json.dumps({"access_token": token(), "expires_in": 3600}).encode()
        issuer = WebhookTarget(lambda _: status(200, body=granted))
        await issuer.start()
        settings = {"token_endpoint": issuer.url, "client_id": "sky", "client_secret": PASSWORD}
        source = GrantedTokens(OAuthSettings.model_validate(settings))
        async with opened(guarded.address("sasl"), sasl=OAuthBearer(token=source)) as log:
            await assert_works(log)
            assert len(issuer.received) == 1
        await issuer.stop()

    async def test_a_token_that_nobody_gives_is_told_as_such(
        self, guarded: SecureKafka, tmp_path: Path
    ) -> None:
        """The token server is away, or the file is not there yet."""
        path = tmp_path / "token"
        async with opened(guarded.address("sasl"), sasl=bearer(path)) as log:
            await kept_out(log, "No such file")
            path.write_text(token())
            await heals(log)


class TestAddresses:
    """No login is at fault here, and it must not be said that one was."""

    async def test_an_address_where_nobody_listens_is_told_as_such(self) -> None:
        [nobody] = free_ports(1)
        async with opened(f"127.0.0.1:{nobody}", sasl=login("PLAIN")) as log:
            await kept_out(log, "Connect call failed")

    async def test_a_host_that_nobody_knows_is_told_as_such(self) -> None:
        async with opened("kafka.invalid:9092") as log:
            await kept_out(log, "kafka.invalid:9092")
            health = await log.health()
        assert "Name or service not known" in health.cause or "resolution" in health.cause

    async def test_tls_at_a_listener_without_it_is_told_as_such(
        self, guarded: SecureKafka, authority: Authority
    ) -> None:
        """The likeliest mistake of all: the wrong port of the right broker."""
        async with opened(guarded.bootstrap_servers, tls=ClientTls(ca=authority.ca)) as log:
            await kept_out(log, "TLS")


async def until_ready(client: httpx.AsyncClient, service: PublishingService, within: float) -> None:
    async with asyncio.timeout(within):
        while (await client.get(service.ready)).status_code != 200:
            await asyncio.sleep(0.1)


async def until_says(client: httpx.AsyncClient, service: PublishingService, words: str) -> None:
    """Not ready, with these words."""
    async with asyncio.timeout(240):
        while True:
            try:
                answer = await client.get(service.ready)
            except httpx.ConnectError:
                assert service.process.running, service.process.log.read_text()[-2000:]
            else:
                assert answer.status_code == 503
                if words in answer.text:
                    return
            await asyncio.sleep(0.1)


async def test_a_service_that_is_kept_out_says_why_until_it_is_let_in(
    guarded: SecureKafka, tmp_path: Path
) -> None:
    """R20: no crash loop, the broker's words in readiness, and nobody has to restart it. A topic that is
    missing is told as such, where nothing else is wrong (rule 10)."""
    await asyncio.to_thread(guarded.set_password, "service", "wrong")
    sasl = {"mechanism": "SCRAM-SHA-256", "username": "service", "password": PASSWORD}
    broker = {"bootstrap_servers": guarded.address("sasl"), "security": {"sasl": sasl}}
    service = PublishingService(tmp_path, broker, "orders")
    service.process.begin()
    with service.process.ended():
        async with httpx.AsyncClient(timeout=60) as client:
            await until_says(client, service, "SaslAuthenticationFailed")
            await asyncio.to_thread(guarded.set_password, "service", PASSWORD)
            await until_says(client, service, "orders")
            async with opened(guarded.bootstrap_servers) as log:
                await log.create_topic("orders", 1)
            await until_ready(client, service, PATIENCE)
    assert PASSWORD not in service.process.log.read_text()
