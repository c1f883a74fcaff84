"""Help to write the file: a schema for editors, a file to begin with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import trustme

from app.config.lint.checks import lint
from app.config.load.loader import Loaded
from app.config.model.schema import schema
from app.config.starter.choices import StarterChoices
from app.config.starter.text import starter_text
from certificate_pairs import CertificatePair

Load = Callable[..., Loaded]
TEMPLATE = starter_text(StarterChoices())


def objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "properties" in node and node.get("type") == "object":  # no setting of that name
            yield node
        for inner in node.values():
            yield from objects(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from objects(inner)


def test_every_setting_is_described() -> None:
    """The schema is the reference: an editor shows what a setting means while it is written."""
    silent = [
        name
        for each in objects(schema())
        for name, setting in each["properties"].items()
        if not setting.get("description")
    ]
    assert silent == []
    assert sum(len(each["properties"]) for each in objects(schema())) > 100


def test_misspelt_settings_are_marked_by_editors() -> None:
    """As they are refused by `check`."""
    assert all(each["additionalProperties"] is False for each in objects(schema()))


def test_a_reference_may_stand_for_a_number() -> None:
    """port: "${env:PORT}" is right, and must not be underlined."""
    port = schema()["$defs"]["Events"]["properties"]["port"]
    number, reference = port["anyOf"]
    assert (number["type"], number["minimum"], number["maximum"]) == ("integer", 0, 65535)
    assert re.search(reference["pattern"], "${env:PORT}")
    assert not re.search(reference["pattern"], "eighty")
    assert port["default"] == 8080


def test_the_schema_is_plain_json_of_its_dialect() -> None:
    """No word that is pydantic's own, and no reference that leads nowhere."""
    made = schema()
    text = json.dumps(made)
    assert made["$schema"].endswith("2020-12/schema")
    assert not re.search(r'"(ge|le|gt|lt)":', text)
    for name in re.findall(r'"#/\$defs/(\w+)"', text):
        assert name in made["$defs"]


def test_the_first_file_loads_and_lints_clean(load_text: Load) -> None:
    """`skybridge init && skybridge check` must not begin with a complaint."""
    assert lint(load_text(TEMPLATE)) == []


def test_what_is_commented_out_in_the_first_file_works(load_text: Load, tmp_path: Path) -> None:
    """People take the comment signs away and expect it to run."""
    head, brokers, rest = TEMPLATE.partition("store: ")
    settings = re.sub(r"(?m)^( *)# (?=( *- )|( *\w+:( |$)))", r"\1", brokers + rest)
    settings = settings.replace("subscriptions: []", "subscriptions:")
    listeners = re.sub(r"(?m)^( +)# ", r"\1", head).replace("/etc/skybridge", str(tmp_path))
    CertificatePair(tmp_path, trustme.CA(), "tls")
    secrets = {
        "KAFKA_PASSWORD": "p",
        "RABBITMQ_PASSWORD": "p",
        "PULSAR_TOKEN": "t",
        "SKYBRIDGE_ADMIN_TOKEN": "token-of-the-admin",
        "GITHUB_SECRET": "s",
        "SHOP_KEY": "the-key-of-the-shop-0",
    }
    loaded = load_text(listeners + settings, secrets)
    made = loaded.config
    assert set(made.brokers) == {"log", "main", "rabbit", "pulsar"}
    assert [route.name for route in made.routes] == ["orders", "everything"]
    assert [each.name for each in made.intakes] == ["github"]
    assert [each.id for each in made.subscriptions] == ["billing"]
    assert made.server.events.tls is not None
    assert made.server.admin.token is not None
    assert lint(loaded) == []
