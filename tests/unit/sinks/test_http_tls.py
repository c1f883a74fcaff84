"""The client pair and the authorities of a webhook change while it is sent to: they count when they have been tried."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from app.bindings.http import HttpMessage
from app.errors import SetupError
from app.sinks import secrets
from app.sinks.http_client import HttpClient
from app.sinks.tls import TlsFiles
from certificate_pairs import (
    CertificatePair,
    ClientCertificates,
    client_certificate_server,
    replace,
)

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class Names:
    async def resolve(self, _host: str) -> list[str]:
        return ["127.0.0.1"]


@pytest.fixture(autouse=True)
def _looks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "CHECK_EVERY", 0.0)


@pytest.fixture
def pair(tmp_path: Path, authority: trustme.CA) -> CertificatePair:
    return CertificatePair(tmp_path, authority, "client")


Make = Callable[..., HttpClient]


def client_of(clients: Make, tmp_path: Path, pair: CertificatePair) -> HttpClient:
    return clients(tls=TlsFiles(tmp_path / "ca.pem", pair.cert, pair.key), lookup=Names())


async def post(client: HttpClient, server: ClientCertificates) -> str:
    """Return the serial number that the target saw with the request, or the fault."""
    url = f"https://hook.example:{server.port}/"
    answer = await client.post(url, HttpMessage.of((), b"x"), 10.0)
    return server.requests[-1] if answer.status == 204 else answer.fault


async def again(client: HttpClient, server: ClientCertificates) -> str:
    """As ``post``, on a new connection."""
    await client.stop()
    return await post(client, server)


@pytest.mark.parametrize("version", VERSIONS)
async def test_half_of_a_new_pair_leaves_the_old_pair_in_use_and_the_log_says_why(
    tmp_path: Path,
    authority: trustme.CA,
    clients: Make,
    pair: CertificatePair,
    version: ssl.TLSVersion,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """From then on no certificate was sent at all, while the log said that the old one stays."""
    async with client_certificate_server(authority, version) as server:
        client = client_of(clients, tmp_path, pair)
        old = await post(client, server)
        other = pair.issue()
        new = pair.write_cert(other)
        assert [await again(client, server) for _ in range(3)] == [old] * 3
        (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
        for words in ("are not reloaded", str(pair.key), str(pair.cert), "do not match", "Cure"):
            assert words in record.getMessage()
        pair.write_key(other)
        assert await again(client, server) == new != old


@pytest.mark.parametrize("pkcs8", [True, False])
async def test_a_key_that_becomes_encrypted_leaves_the_old_pair_in_use_and_asks_no_terminal(
    tmp_path: Path,
    authority: trustme.CA,
    clients: Make,
    pair: CertificatePair,
    pkcs8: bool,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with client_certificate_server(authority) as server:
        client = client_of(clients, tmp_path, pair)
        old = await post(client, server)
        pair.encrypt_key(pkcs8=pkcs8)
        assert await again(client, server) == old
    assert f"key {pair.key} is encrypted" in caplog.text
    assert "pass phrase:" not in "".join(capfd.readouterr())


def test_an_encrypted_key_is_refused_at_the_start_without_a_question(
    tmp_path: Path, pair: CertificatePair, capfd: pytest.CaptureFixture[str]
) -> None:
    pair.encrypt_key()
    with pytest.raises(SetupError) as refused:
        TlsFiles(None, pair.cert, pair.key, setting="subscriptions.billing.tls")
    said = str(refused.value)
    assert said.startswith(f"subscriptions.billing.tls: key {pair.key} is encrypted")
    assert "openssl pkey" in said
    assert "pass phrase:" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("content", [b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\nMIIB"])
async def test_authorities_that_become_unusable_leave_the_old_ones_in_use(
    tmp_path: Path,
    authority: trustme.CA,
    clients: Make,
    pair: CertificatePair,
    content: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Empty, no certificate, half written; and gone."""
    async with client_certificate_server(authority) as server:
        client = client_of(clients, tmp_path, pair)
        old = await post(client, server)
        replace(tmp_path / "ca.pem", content)
        assert await again(client, server) == old
        assert str(tmp_path / "ca.pem") in caplog.text
        (tmp_path / "ca.pem").unlink()
        assert await again(client, server) == old
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        new = pair.renew()
        assert await again(client, server) == new


async def test_an_authority_that_leaves_the_file_is_trusted_no_more(
    tmp_path: Path, authority: trustme.CA, clients: Make, pair: CertificatePair
) -> None:
    """It was trusted until the next start: it had been loaded into the context, and nothing takes it out of one."""
    async with client_certificate_server(authority) as server:
        client = client_of(clients, tmp_path, pair)
        await post(client, server)
        replace(tmp_path / "ca.pem", trustme.CA().cert_pem.bytes())
        assert await again(client, server) == "tls"


async def test_the_next_request_uses_the_new_pair_although_a_connection_is_open(
    tmp_path: Path, authority: trustme.CA, clients: Make, pair: CertificatePair
) -> None:
    """A busy connection lived as long as there was traffic, and with it a certificate that was withdrawn."""
    async with client_certificate_server(authority) as server:
        client = client_of(clients, tmp_path, pair)
        old = await post(client, server)
        assert await post(client, server) == old
        assert len(server.serials) == 1  # one connection
        new = pair.renew()
        assert await post(client, server) == new
        assert server.serials == [old, new]
