"""From the configuration to what the verbs of the pipeline are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trustme
from pydantic import ValidationError

from app.config.model.config import Config
from app.errors import SetupError
from app.features.lake.settings import (
    archived_place,
    archived_topics,
    engine_of,
    lake_of,
    state_folder,
)
from app.pipeline.settings import folder_of
from app.spark import jars

LOG = {"kind": "embedded", "path": "/srv/l", "kafka_listener": "127.0.0.1:19092"}


def config(brokers: dict[str, Any], **more: Any) -> Config:
    return Config.model_validate({"version": 1, "brokers": brokers, **more})


def kafka(**security: Any) -> dict[str, Any]:
    return {"kind": "kafka", "bootstrap_servers": "k:9092", "security": security}


def options(tmp_path: Path, **security: Any) -> dict[str, str]:
    return dict(archived_place(config({"main": kafka(**security)})).options)


def test_without_a_section_the_log_is_archived_beside_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    routes = [{"name": "everything", "to": {"broker": "log", "topic": "events"}}]
    read = config({"log": LOG}, routes=routes)
    place = archived_place(read)
    assert (place.broker, place.bootstrap_servers) == ("log", "127.0.0.1:19092")
    assert archived_topics(read, "log") == ("events",)
    home = tmp_path / "skybridge-data" / "lake"
    assert lake_of(read).catalog.uri == f"jdbc:sqlite:{home}/catalog.db"
    assert lake_of(read).catalog.warehouse == home.as_uri()
    assert state_folder(read) == f"{home.as_uri()}/_checkpoints"
    assert engine_of(read).master == "local[*]"
    assert home.is_dir(), "SQLite makes no folders"


def test_a_checkpoint_of_the_archive_is_refused_with_the_cure() -> None:
    """Earlier versions had the setting, also for the positions of reroute and replay."""
    with pytest.raises(
        ValidationError, match=r"Remove checkpoint, or name its folder as pipeline\.state"
    ):
        config({"log": LOG}, pipeline={"archive": {"checkpoint": "/data"}})
    read = config({"log": LOG}, pipeline={"state": "s3a://events/state/"})
    assert state_folder(read) == "s3a://events/state"


@pytest.mark.parametrize(
    ("storage", "warehouse"), [({}, "s3://events/lake"), ({"storage": "s3"}, "events")]
)
def test_a_lake_in_s3_needs_no_hadoop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: dict[str, str], warehouse: str
) -> None:
    """A REST catalog may know the warehouse by a name, which is no folder then."""
    monkeypatch.chdir(tmp_path)
    catalog = {"kind": "rest", "uri": "http://catalog", "properties": {"s3.region": "eu-1"}}
    lake = {"warehouse": warehouse, "catalog": catalog}
    read = config({"log": LOG}, pipeline={**storage, "lake": lake})
    found = lake_of(read).catalog
    assert found.warehouse == warehouse
    assert dict(found.properties) == {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": "eu-1", "s3.region": "eu-1",
    }  # fmt: skip
    assert folder_of(found.warehouse) is None, "so it has a lease"
    assert state_folder(read) == (tmp_path / "skybridge-data" / "checkpoints").as_uri()
    assert jars.S3 in jars.needed(engine_of(read))
    assert not list(tmp_path.iterdir())


def test_a_log_without_a_listener_is_refused_with_the_cure() -> None:
    with pytest.raises(SetupError) as refused:
        archived_place(config({"log": {"kind": "embedded", "path": "/srv/l"}}))
    assert 'kafka_listener: "127.0.0.1:19092"' in refused.value.cure


def test_one_of_several_must_be_named() -> None:
    with pytest.raises(SetupError, match="there are several: log, main"):
        archived_place(config({"log": LOG, "main": kafka()}))


@pytest.mark.parametrize(
    ("topic", "words"),
    [("orders.{type}", "that depend on its events"), (None, "no route publishes")],
)
def test_topics_that_nobody_can_know_must_be_listed(topic: str | None, words: str) -> None:
    routes = [{"name": "r", "to": {"broker": "log", "topic": topic}}] if topic else []
    with pytest.raises(SetupError, match=words):
        archived_topics(config({"log": LOG}, routes=routes), "log")


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.Plain"), ("SCRAM-SHA-256", "scram.Scram"), ("SCRAM-SHA-512", "scram.Scram")],
)
def test_a_login_is_written_as_java_reads_it(tmp_path: Path, mechanism: str, module: str) -> None:
    """A quote or a backslash in a password ends no word of the JAAS line."""
    sasl = {"mechanism": mechanism, "username": "sky", "password": 'a"b\\c'}
    found = options(tmp_path, sasl=sasl)
    assert found["security.protocol"] == "SASL_PLAINTEXT"
    assert found["sasl.mechanism"] == mechanism
    assert found["sasl.jaas.config"] == (
        f"org.apache.kafka.common.security.{module}LoginModule required"
        ' username="sky" password="a\\"b\\\\c";'
    )


def test_client_credentials_are_java_s_own_business(tmp_path: Path) -> None:
    oauth = {"token_endpoint": "https://id/token", "client_id": "sky", "client_secret": "s"}
    found = options(tmp_path, sasl={"mechanism": "OAUTHBEARER", "oauth": oauth}, tls={})
    assert found["security.protocol"] == "SASL_SSL"
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://id/token"
    assert 'clientId="sky" clientSecret="s"' in found["sasl.jaas.config"]


def test_a_token_in_a_setting_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(SetupError) as refused:
        options(tmp_path, sasl={"mechanism": "OAUTHBEARER", "token": "t0p-secret"})
    assert "token_file" in refused.value.cure
    assert "t0p-secret" not in str(refused.value)


def test_certificates_go_as_text_and_keys_as_pkcs8(tmp_path: Path) -> None:
    """Executors on other machines have no files of ours; Java reads no other form of a key."""
    authority = trustme.CA()
    ours = authority.issue_cert("sky")
    ca, cert, key = (tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem"))
    authority.cert_pem.write_to_path(ca)
    ours.cert_chain_pems[0].write_to_path(cert)
    ours.private_key_pem.write_to_path(key)
    tls = {"ca": str(ca), "cert": str(cert), "key": str(key), "verify_host": False}
    found = options(tmp_path, tls=tls)
    assert found["security.protocol"] == "SSL"
    assert found["ssl.truststore.certificates"] == ca.read_text()
    assert found["ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    assert found["ssl.endpoint.identification.algorithm"] == ""


def test_our_own_listener_lets_us_in_with_its_first_user() -> None:
    listener = {"listen": "127.0.0.1:19092", "sasl": {"users": {"ann": "pass"}}}
    place = archived_place(config({"log": {**LOG, "kafka_listener": listener}}))
    assert place.options["sasl.mechanism"] == "SCRAM-SHA-512"
    assert 'username="ann"' in place.options["sasl.jaas.config"]


def test_a_lake_elsewhere_needs_a_catalog_that_says_where() -> None:
    lake = {"lake": {"warehouse": "s3://bucket/lake"}}
    with pytest.raises(SetupError, match="needs a catalog"):
        lake_of(config({"log": LOG}, pipeline=lake))
