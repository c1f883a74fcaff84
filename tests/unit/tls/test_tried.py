"""What is in use, and when the next takes its place."""

from __future__ import annotations

import datetime as dt
import os
import ssl
from pathlib import Path

import pytest
import trustme

from app.errors import SetupError
from app.features.certificates import Expiries
from app.gateway.tls import Certificates, Tls
from app.tls import Copies, PemReloader, Pems, tried
from certificate_pairs import CertificatePair, replace

ENDS = dt.datetime(2031, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
LATER = ENDS + dt.timedelta(days=90)


@pytest.fixture
def pair(tmp_path: Path) -> CertificatePair:
    pair = CertificatePair(tmp_path, trustme.CA(), "ours")
    pair.renew(not_after=ENDS)
    return pair


def pems_of(pair: CertificatePair) -> Pems:
    return Pems(setting="server.events.tls", cert=pair.cert, key=pair.key)


class Made:
    """Counts how often something was made of the files, and what happens meanwhile."""

    def __init__(self, pems: Pems) -> None:
        self.pems = pems
        self.times = 0
        self.meanwhile = lambda: None

    def __call__(self) -> int:
        self.pems.load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        self.meanwhile()
        self.times += 1
        return self.times


def test_files_that_have_not_changed_are_not_read_again(pair: CertificatePair) -> None:
    made = Made(pems_of(pair))
    kept = PemReloader(made.pems, made)
    assert [kept.look() for _ in range(3)] == [False] * 3
    assert made.times == 1


def test_a_change_while_the_files_are_read_is_taken_whole(pair: CertificatePair) -> None:
    made = Made(pems_of(pair))

    def meanwhile() -> None:
        made.meanwhile = lambda: None
        pair.renew(not_after=LATER)

    made.meanwhile = meanwhile
    kept = PemReloader(made.pems, made)
    assert (kept.current, kept.end) == (2, LATER.timestamp())
    assert not kept.look()


def test_files_that_were_refused_are_tried_again_after_a_while_also_unchanged(
    pair: CertificatePair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A right to read that was missing changes no mark of the file; the log says it once."""
    made = Made(pems_of(pair))
    kept = PemReloader(made.pems, made)
    good = pair.key.read_bytes()
    pair.encrypt_key()
    assert [kept.look() for _ in range(3)] == [False] * 3
    monkeypatch.setattr(tried, "RETRY", 0.0)
    kept._again = 0.0
    assert [kept.look() for _ in range(3)] == [False] * 3
    assert caplog.text.count("is encrypted") == 1
    assert kept.current == 1
    replace(pair.key, good)
    assert kept.look()
    assert (kept.current, kept.generation) == (2, 1)


async def test_the_metric_shows_the_end_of_the_certificate_in_use(pair: CertificatePair) -> None:
    """It showed that of the file, also of one that cannot be used: no alert, and an expired certificate in use."""
    name = "server.events.tls.cert"
    expiries, files = Expiries(), {name: pair.cert}
    listener = Certificates(Tls(certificate=pair.cert, key=pair.key))
    assert await expiries.of(files) == {name: ENDS.timestamp()}
    other = pair.issue(not_after=LATER)
    pair.write_cert(other)
    assert await expiries.of(files) == {name: ENDS.timestamp()}
    pair.write_key(other)
    assert await expiries.of(files) == {name: LATER.timestamp()}
    pair.cert.unlink()
    assert await expiries.of(files) == {name: LATER.timestamp()}
    assert listener.context()


def test_copies_last_as_long_as_they_are_held(pair: CertificatePair) -> None:
    copies = Copies(pems_of(pair))
    cert, key = copies.pems.cert, copies.pems.key
    assert cert is not None
    assert key is not None
    assert cert.read_bytes() == pair.cert.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    pair.renew()
    assert cert.read_bytes() != pair.cert.read_bytes()
    del copies
    assert not cert.exists()


def test_copies_are_files_where_memory_has_none(
    pair: CertificatePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("os.memfd_create")
    copies = Copies(pems_of(pair))
    cert, key = copies.pems.cert, copies.pems.key
    assert cert is not None
    assert key is not None
    assert cert.read_bytes() == pair.cert.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    del copies
    assert not key.exists()


def test_files_that_cannot_be_used_at_the_start_are_an_error_with_setting_file_and_cure(
    pair: CertificatePair,
) -> None:
    pair.write_cert(pair.issue())
    with pytest.raises(SetupError) as refused:
        Certificates(Tls(certificate=pair.cert, key=pair.key), "server.admin.tls")
    assert refused.value.setting == "server.admin.tls"
    assert str(pair.key) in str(refused.value)
    assert "replace certificate and key together" in refused.value.cure


def test_a_pipe_in_the_place_of_a_file_leaves_the_old_one_in_use(
    pair: CertificatePair, caplog: pytest.LogCaptureFixture
) -> None:
    """For every way in which a context is made of the files."""
    pems = Pems(setting="s.tls", cert=pair.cert, key=pair.key, ca=pair.cert)
    client = tried.ClientContext(pems)
    copies = PemReloader(pems, lambda: Copies(pems))
    listener = Certificates(Tls(certificate=pair.cert, key=pair.key))
    pair.cert.unlink()
    os.mkfifo(pair.cert)
    client.look()
    assert not copies.look()
    assert not listener._tried.look()
    assert client.generation == 0
    assert caplog.text.count(f"{pair.cert} is not a regular file") == 3


def test_authorities_that_are_none_leave_the_old_ones_in_use(
    pair: CertificatePair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca = tmp_path / "ca.crt"
    replace(ca, trustme.CA().cert_pem.bytes())
    listener = Certificates(Tls(certificate=pair.cert, key=pair.key, client_ca=ca))
    replace(ca, pair.issue().cert_chain_pems[0].bytes())
    assert not listener._tried.look()
    assert f"client_ca {ca} holds no certificate of an authority" in caplog.text
    with pytest.raises(SetupError, match="holds no certificate of an authority"):
        Certificates(Tls(certificate=pair.cert, key=pair.key, client_ca=ca))
