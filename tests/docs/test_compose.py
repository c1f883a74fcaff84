"""The compose file cannot be run here; what can be checked of it is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from app.config.lint.checks import lint
from app.config.load.loader import load
from app.config.model.store import PostgresStore
from pages import CHECKOUT


def test_the_configuration_in_the_compose_file_has_no_errors(tmp_path: Path) -> None:
    """What a trial is begun with must at least be a configuration, and name services that are there."""
    document = yaml.safe_load((CHECKOUT / "docs/examples/compose.yaml").read_text())
    file = tmp_path / "skybridge.yaml"
    file.write_text(document["configs"]["skybridge"]["content"].replace("$$", "$"))
    loaded = load(file, document["services"]["skybridge"]["environment"])
    assert [each for each in lint(loaded) if each.level == "error"] == []
    brokers = {"kafka": "bootstrap_servers", "rabbit": "addresses", "pulsar": "admin_url"}
    for name, setting in brokers.items():
        address = getattr(loaded.config.brokers[name], setting)
        assert address.rpartition("/")[2].partition(":")[0] in document["services"]


def test_the_store_that_a_comment_offers_works(tmp_path: Path) -> None:
    """It is read as a setting in place of the one below."""
    text = (CHECKOUT / "docs/examples/compose.yaml").read_text()
    (offered,) = re.findall(r"(?m)^#.* set: (store: .*\})\.$", text)
    document = yaml.safe_load(text)
    content = document["configs"]["skybridge"]["content"].replace("$$", "$")
    file = tmp_path / "skybridge.yaml"
    file.write_text(re.sub(r"(?m)^store: .*$", offered.replace("\\", ""), content))
    store = load(file, document["services"]["skybridge"]["environment"]).config.store
    assert isinstance(store, PostgresStore)
    postgres = document["services"]["postgres"]["environment"]
    user = f"{postgres['POSTGRES_USER']}:{postgres['POSTGRES_PASSWORD']}"
    assert store.dsn.get_secret_value() == f"postgresql://{user}@postgres/{postgres['POSTGRES_DB']}"


def test_every_published_port_is_on_loopback() -> None:
    """A trial with passwords in the file must not be open to the neighbours."""
    document = yaml.safe_load((CHECKOUT / "docs/examples/compose.yaml").read_text())
    ports = [port for each in document["services"].values() for port in each.get("ports", ())]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []
