"""How RabbitMQ lets us in, and what is said when it does not: an operator must not look for the wrong
fault, and nothing may be shown that is secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
import trustme

from app.brokers.portable import PortableLog
from app.brokers.rabbitmq import open_log
from app.brokers.security import ClientTls
from app.errors import BrokerRefused, BrokerUnavailable, SetupError
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from broker_senders import assert_works
from contract_tools import (
    ANSWERED_WITHIN,
    CALM,
    PATIENCE,
    fresh_group,
    publish,
    running,
    take,
    text,
)
from free_ports import free_ports
from rabbitmq_server import RabbitServer

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.rabbitmq,
    pytest.mark.fault,
    pytest.mark.usefixtures("patient_probes"),
]

USER = "sky"  # the name in the client's certificate, too


class Authority:
    """A certificate authority of our own, and what it signed, as PEM files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        authority = trustme.CA()
        self.ca = self._write("ca.pem", authority.cert_pem)
        server = authority.issue_cert("127.0.0.1", "localhost")
        self.certificate = self._write("server.pem", *server.cert_chain_pems)
        self.key = self._write("server.key", server.private_key_pem)
        client = authority.issue_cert("client@example.com", common_name=USER)
        self.client = self._write("client.pem", *client.cert_chain_pems)
        self.client_key = self._write("client.key", client.private_key_pem)

    def _write(self, name: str, *blobs: trustme.Blob) -> str:
        path = self._folder / name
        path.write_bytes(b"".join(blob.bytes() for blob in blobs))
        path.chmod(0o644)
        return str(path)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded(rabbitmq: str, authority: Authority) -> Iterator[RabbitServer]:
    """Listens with TLS too, knows a user with a password, and one without rights. ``rabbitmq`` skips or
    fails where there is none to be had."""
    server = RabbitServer()
    server.configure(
        {
            "listeners.ssl.1": f"127.0.0.1:{server.tls_port}",
            "ssl_options.cacertfile": authority.ca,
            "ssl_options.certfile": authority.certificate,
            "ssl_options.keyfile": authority.key,
            "ssl_options.verify": "verify_peer",
            "ssl_options.fail_if_no_peer_cert": "false",
        }
    )
    server.start()
    try:
        server.ctl("add_user", USER, "right")
        server.ctl("set_permissions", USER, ".*", ".*", ".*")
        server.ctl("add_user", "reader", "right")
        server.ctl("set_permissions", "reader", "^$", "^$", ".*")
        yield server
    finally:
        server.stop()


@asynccontextmanager
async def opened(addresses: str, **settings) -> AsyncIterator[PortableLog]:
    calm = {"bounds": CALM, "request_timeout": ANSWERED_WITHIN}
    log = open_log(name="main", addresses=addresses, **(calm | settings))
    async with running(log):
        yield log


async def test_a_wrong_password_is_told_from_a_right_one(guarded: RabbitServer) -> None:
    """Readiness says why, there is no crash loop, and the password is in none of the words (S12)."""
    async with opened(guarded.address, username=USER, password="right") as log:
        await assert_works(log)
    async with opened(guarded.address, username=USER, password="not-right-at-all") as log:
        health = await log.health()
        (result,) = await log.submit("t", [text("x")])
    assert not health.healthy
    assert "ACCESS_REFUSED" in health.cause
    assert "not-right-at-all" not in health.cause + str(result) + repr(log.driver._settings)
    assert isinstance(result, BrokerUnavailable)


async def test_it_becomes_ready_by_itself_when_the_password_is_made_right(
    guarded: RabbitServer,
) -> None:
    """Reliability R20: whoever mends the broker need not restart the bridge."""
    guarded.ctl("add_user", "late", "wrong")
    guarded.ctl("set_permissions", "late", ".*", ".*", ".*")
    async with opened(guarded.address, username="late", password="right") as log:
        assert not (await log.health()).healthy
        await asyncio.to_thread(guarded.ctl, "change_password", "late", "right")
        async with asyncio.timeout(PATIENCE):
            while not (await log.health()).healthy:
                await asyncio.sleep(0.05)
        await assert_works(log)


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
async def test_an_address_where_nobody_is_is_told_as_such(host: str) -> None:
    """At once, and without giving up."""
    [port] = free_ports(1)
    async with opened(f"{host}:{port}") as log:
        health = await log.health()
        with pytest.raises(BrokerUnavailable):
            await log.subscribe(fresh_group(), ["t"], EARLIEST)
    assert not health.healthy
    assert host in health.cause


async def test_a_second_address_is_tried_when_the_first_is_dead(guarded: RabbitServer) -> None:
    """A cluster is reached through any of its nodes."""
    [port] = free_ports(1)
    async with opened(f"127.0.0.1:{port}, {guarded.address}") as log:
        await assert_works(log)


async def test_a_virtual_host_that_is_not_there_is_named(guarded: RabbitServer) -> None:
    async with opened(guarded.address, vhost="nowhere/at all") as log:
        assert "nowhere/at all" in (await log.health()).cause


async def test_a_virtual_host_with_a_slash_is_reached(guarded: RabbitServer) -> None:
    guarded.ctl("add_vhost", "a/b c")
    guarded.ctl("set_permissions", "-p", "a/b c", USER, ".*", ".*", ".*")
    async with opened(guarded.address, username=USER, password="right", vhost="a/b c") as log:
        await assert_works(log)


async def test_who_may_not_write_is_refused_in_the_brokers_words(guarded: RabbitServer) -> None:
    """403 with what the broker said, and the channel lives on for others."""
    topic = f"t-{uuid4().hex[:12]}"
    async with opened(guarded.address) as log:
        await log.create_topic(topic, 1)
    async with opened(guarded.address, username="reader", password="right") as log:
        for _ in range(2):
            (result,) = await log.submit(topic, [text("x", "k")])
            assert isinstance(result, BrokerRefused)
            assert result.kind == "not-authorised"
            assert "refused for user 'reader'" in str(result)
        with pytest.raises(BrokerRefused) as refused:
            await log.create_topic("another", 1)
        assert refused.value.kind == "not-authorised"
        assert (await log.health()).healthy


async def test_a_reader_without_rights_to_declare_still_consumes(guarded: RabbitServer) -> None:
    """Least privilege: only the even sharing between members is lost, not the messages."""
    topic = f"t-{uuid4().hex[:12]}"
    async with opened(guarded.address) as log:
        await log.create_topic(topic, 2)
        await publish(log, topic, [text(str(n), str(n)) for n in range(6)])
    async with opened(guarded.address, username="reader", password="right") as log:
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await consumer.settle(await take(consumer, 6))
        await consumer.close()


async def test_tls_with_our_own_authority(guarded: RabbitServer, authority: Authority) -> None:
    """AMQPS, the server checked against the CA that the settings name."""
    address = f"127.0.0.1:{guarded.tls_port}"
    async with opened(
        address, tls=ClientTls(ca=authority.ca), username=USER, password="right"
    ) as log:
        await assert_works(log)


async def test_the_clients_certificate_says_who_we_are(
    guarded: RabbitServer, authority: Authority
) -> None:
    """EXTERNAL: no password at all; without the certificate there is no way in."""
    tls = ClientTls(ca=authority.ca, cert=authority.client, key=authority.client_key)
    address = f"127.0.0.1:{guarded.tls_port}"
    async with opened(address, tls=tls, auth="external", password="") as log:
        await assert_works(log)
    async with opened(address, tls=ClientTls(ca=authority.ca), auth="external", password="") as log:
        assert not (await log.health()).healthy


async def test_a_server_that_nobody_vouches_for_is_not_talked_to(
    guarded: RabbitServer, tmp_path: Path
) -> None:
    """S15: another authority, and plain text to a TLS port, end before a password leaves."""
    address = f"127.0.0.1:{guarded.tls_port}"
    other = Authority(tmp_path)
    async with opened(address, tls=ClientTls(ca=other.ca)) as log:
        assert "certificate verify failed" in (await log.health()).cause
    async with opened(address, request_timeout=2.0) as log:
        assert not (await log.health()).healthy


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"addresses": "amqp://x:1"}, "brokers.main.addresses"),
        ({"addresses": "user:pw@host:1"}, "brokers.main.addresses"),
        ({"addresses": "host:port"}, "brokers.main.addresses"),
        ({"addresses": ""}, "brokers.main.addresses"),
        ({"tls": ClientTls(ca="/no/such/file")}, "brokers.main.security.tls"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_connected(
    settings: dict, setting: str
) -> None:
    with pytest.raises(SetupError) as refused:
        open_log(name="main", **settings)
    assert refused.value.setting == setting
    assert refused.value.cure


async def test_an_ipv6_address_is_an_address(guarded: RabbitServer) -> None:
    """Written as in a URL; nobody listens there, and the first node answers."""
    async with opened(f"[::1]:{guarded.port},{guarded.address}") as log:
        (result,) = await log.submit("exchange:amq.fanout:", [text("x")])
    assert not isinstance(result, Receipt)
    assert isinstance(result, BrokerRefused)
    assert result.kind == "unroutable"
