"""Settings become the client's arguments, and give no secret away."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from app.brokers.kafka import KafkaSettings, SaslCredentials
from app.brokers.security import ClientTls
from app.errors import SetupError

PASSWORD = "correct horse"
SASL = SaslCredentials(mechanism="SCRAM-SHA-512", username="sky", password=PASSWORD)


def settings(**changes: object) -> KafkaSettings:
    return KafkaSettings(name="main", bootstrap_servers="127.0.0.1:9092", **changes)


@pytest.mark.parametrize(
    ("tls", "sasl", "protocol"),
    [
        (None, None, "PLAINTEXT"),
        (ClientTls(), None, "SSL"),
        (None, SASL, "SASL_PLAINTEXT"),
        (ClientTls(), SASL, "SASL_SSL"),
    ],
)
def test_the_protocol_follows_from_what_is_set(
    tls: ClientTls | None, sasl: SaslCredentials | None, protocol: str
) -> None:
    """Nobody has to name Kafka's four protocols."""
    client = settings(tls=tls, sasl=sasl).client()
    assert client["security_protocol"] == protocol
    assert (client["ssl_context"] is not None) == (tls is not None)
    assert client.get("sasl_plain_password") == (PASSWORD if sasl else None)


def test_a_password_is_in_no_text() -> None:
    """Settings are printed in errors and by `check` (S12)."""
    assert PASSWORD not in repr(settings(sasl=SASL))
    assert PASSWORD not in str(SASL)


def test_a_private_authority_and_a_client_certificate_are_loaded(tmp_path: Path) -> None:
    """Mutual TLS."""
    authority = trustme.CA()
    issued = authority.issue_cert("client.example")
    paths = {name: str(tmp_path / name) for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(paths["ca"])
    issued.cert_chain_pems[0].write_to_path(paths["cert"])
    issued.private_key_pem.write_to_path(paths["key"])
    context = settings(tls=ClientTls(**paths, verify_host=False)).client()["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert not context.check_hostname


def test_a_missing_file_names_the_setting_and_the_cure() -> None:
    """Errors at start-up say what to change."""
    with pytest.raises(SetupError, match=r"brokers\.main\.security\.tls.*Cure"):
        settings(tls=ClientTls(ca="/nowhere/ca.pem")).client()
