"""What is wrong with certificates, keys and authorities, in the words of an operator."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.tls import PemFault, Pems, faults_of
from certificate_pairs import CertificatePair, replace


@pytest.fixture
def pair(tmp_path: Path) -> CertificatePair:
    return CertificatePair(tmp_path, trustme.CA(), "ours")


def found(pair: CertificatePair, ca: Path | None = None) -> list[PemFault]:
    return faults_of(Pems(setting="s.tls", cert=pair.cert, key=pair.key, ca=ca))


def only(faults: list[PemFault]) -> tuple[str, bool, str]:
    (fault,) = faults
    assert fault.cure
    return fault.part, fault.fatal, fault.message


def test_a_good_pair_has_no_faults(pair: CertificatePair) -> None:
    assert found(pair) == []


def test_key_and_certificate_of_two_pairs(pair: CertificatePair) -> None:
    pair.write_cert(pair.issue())
    said = f"{pair.key} does not belong to the certificate in {pair.cert}: they do not match"
    assert only(found(pair)) == ("key", True, said)


@pytest.mark.parametrize("pkcs8", [True, False])
def test_an_encrypted_key(
    pair: CertificatePair, pkcs8: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """In both forms; nothing asks for the pass phrase."""
    pair.encrypt_key(pkcs8=pkcs8)
    part, fatal, said = only(found(pair))
    assert (part, fatal) == ("key", True)
    assert said.startswith(f"{pair.key} is encrypted")
    assert "pass phrase:" not in "".join(capfd.readouterr())


def test_an_encrypted_key_in_the_file_of_the_certificate(pair: CertificatePair) -> None:
    pair.encrypt_key()
    replace(pair.cert, pair.cert.read_bytes() + pair.key.read_bytes())
    part, _, said = only(faults_of(Pems(setting="s.tls", cert=pair.cert)))
    assert part == "cert"
    assert "is encrypted" in said


def test_a_pass_phrase_that_a_setting_has_opens_the_key(pair: CertificatePair) -> None:
    pair.encrypt_key()
    pems = Pems(setting="s", cert=pair.cert, key=pair.key, password="secret")
    assert faults_of(pems) == []
    wrong = Pems(setting="s", cert=pair.cert, key=pair.key, password="other")
    assert "pass phrase is wrong" in only(faults_of(wrong))[2]


@pytest.mark.parametrize(
    ("before", "after", "fatal", "words"),
    [
        (-9, -2, False, "has expired on"),
        (2, 9, False, "is not yet valid: it begins on"),
    ],
)
def test_the_time_of_a_certificate(
    pair: CertificatePair, before: int, after: int, fatal: bool, words: str
) -> None:
    """TLS can be set up with it, and peers refuse it: a warning."""
    now = dt.datetime.now(dt.UTC)
    day = dt.timedelta(days=1)
    pair.renew(not_before=now + before * day, not_after=now + after * day)
    part, is_fatal, said = only(found(pair))
    assert (part, is_fatal) == ("cert", fatal)
    assert said.startswith(f"{pair.cert} {words}")


def test_a_chain_in_the_wrong_order(tmp_path: Path) -> None:
    """The authority before the leaf: OpenSSL cannot use it. Leaf first, then a stranger: peers may refuse it."""
    root = trustme.CA()
    pair = CertificatePair(tmp_path, root.create_child_ca(), "ours")
    leaf, *rest = (
        f"-----BEGIN{each}".encode() for each in pair.cert.read_text().split("-----BEGIN")[1:]
    )
    assert rest
    assert found(pair) == []
    replace(pair.cert, b"".join([*rest, leaf]))
    part, fatal, said = only(found(pair))
    assert (part, fatal) == ("cert", True)
    assert "is in the wrong order" in said
    stranger = trustme.CA().create_child_ca().cert_pem.bytes()
    replace(pair.cert, leaf + stranger)
    part, fatal, said = only(found(pair))
    assert (part, fatal) == ("cert", False)
    assert "certificate 2 did not sign the one before it" in said


@pytest.mark.parametrize("name", ["cert", "key"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x30\x82\x01\x02", "holds no PEM"),
        (b"-----BEGIN CERTIFICATE-----\nMIIB", "cannot be read"),
        (b"-----BEGIN PRIVATE KEY-----\nMIIB", "cannot be read"),
    ],
)
def test_files_that_hold_no_pem(
    pair: CertificatePair, name: str, content: bytes, words: str
) -> None:
    path = getattr(pair, name)
    replace(path, content)
    first = next(each for each in found(pair) if each.part == name)
    assert first.fatal
    assert first.message.startswith(str(path))
    kinds = {"cert": b"CERTIFICATE", "key": b"PRIVATE KEY"}
    fits = words != "cannot be read" or kinds[name] in content
    assert (words if fits else "holds no PEM") in first.message


@pytest.mark.parametrize("content", [b"", b"text", b"-----BEGIN CERTIFICATE-----\nMIIB"])
def test_authorities_that_are_none(pair: CertificatePair, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ca.pem").write_bytes(content)
    part, fatal, said = only(found(pair, tmp_path / "ca.pem"))
    assert (part, fatal) == ("ca", True)
    assert said.startswith(str(tmp_path / "ca.pem"))


def test_authorities_of_which_one_is_valid(pair: CertificatePair, tmp_path: Path) -> None:
    """An authority that is over does no harm beside its successor."""
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    over = trustme.CA().issue_cert("old", not_before=now - 9 * day, not_after=now - day)
    ca = tmp_path / "ca.pem"
    ca.write_bytes(over.cert_chain_pems[0].bytes())
    part, fatal, said = only(found(pair, ca))
    assert (part, fatal) == ("ca", False)
    assert "has expired" in said
    ca.write_bytes(ca.read_bytes() + trustme.CA().cert_pem.bytes())
    assert found(pair, ca) == []


def test_files_that_are_not_there_or_cannot_be_read(pair: CertificatePair, tmp_path: Path) -> None:
    pair.cert.unlink()
    assert only(found(pair)) == ("cert", True, f"{pair.cert} does not exist")
    pair.renew()
    pair.key.unlink()
    pair.key.mkdir()
    assert only(found(pair)) == ("key", True, f"{pair.key} cannot be read: Is a directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_key_that_may_not_be_read(pair: CertificatePair) -> None:
    pair.key.chmod(0)
    assert only(found(pair)) == ("key", True, f"{pair.key} cannot be read: Permission denied")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize("part", ["cert", "key", "ca"])
def test_a_pipe_is_named_and_not_waited_for(pair: CertificatePair, pipe: Path, part: str) -> None:
    """To open it would wait until somebody writes to it."""
    files = {"cert": pair.cert, "key": pair.key, "ca": pair.cert, part: pipe}
    said = f"{pipe} is not a regular file"
    assert only(faults_of(Pems(setting="s.tls", **files))) == (part, True, said)


def of_clients(pair: CertificatePair, ca: Path) -> list[PemFault]:
    pems = Pems(
        setting="s.tls", cert=pair.cert, key=pair.key, ca=ca, ca_part="client_ca", signs=True
    )
    return faults_of(pems)


def test_authorities_of_clients_that_are_none(pair: CertificatePair, tmp_path: Path) -> None:
    """A certificate that an authority signed verifies nobody's."""
    leaf = tmp_path / "leaf.crt"
    replace(leaf, pair.issue().cert_chain_pems[0].bytes())
    part, fatal, said = only(of_clients(pair, leaf))
    assert (part, fatal) == ("client_ca", True)
    assert said.startswith(f"{leaf} holds no certificate of an authority")
    assert found(pair, leaf) == []  # a target may be known by its own certificate


def test_authorities_of_clients(pair: CertificatePair, tmp_path: Path) -> None:
    """One authority beside another certificate is enough; so is a client that signed itself."""
    bundle, authority = tmp_path / "bundle.crt", trustme.CA()
    leaf = authority.issue_cert("client.example").cert_chain_pems[0].bytes()
    replace(bundle, leaf + authority.cert_pem.bytes())
    assert of_clients(pair, bundle) == []
    replace(bundle, self_signed())
    assert of_clients(pair, bundle) == []


def self_signed() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)
