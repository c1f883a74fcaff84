"""Spectral, a linter that was not written here, has nothing to say about the two documents."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import opinion_install
from app.config.asyncapi import document
from app.config.model.config import Config
from kafka_install import Missing
from pages import CHECKOUT
from skipping import skip_or_fail

pytestmark = pytest.mark.nightly

CONFIG = {
    "version": 1,
    "brokers": {
        "log": {"kind": "embedded", "path": "log", "kafka_listener": "127.0.0.1:19092"},
        "rabbit": {"kind": "rabbitmq", "addresses": "r:5672"},
    },
    "routes": [
        {
            "name": "all",
            "content_mode": "as_received",
            "to": {"broker": "log", "topic": "a.{type}"},
        },
        {"name": "docs", "content_mode": "structured", "to": {"broker": "rabbit", "topic": "b"}},
    ],
    "subscriptions": [
        {"id": "s", "source": {"broker": "rabbit", "topics": ["b"]}, "sink": "https://s.example/"}
    ],
}


@pytest.fixture(scope="module")
def spectral() -> list[str]:
    try:
        folder = opinion_install.installed(opinion_install.SPECTRAL)
    except Missing as missing:
        skip_or_fail(missing)
    rules = ["--ruleset", str(folder / "rules.yaml"), "--format", "json", "--quiet"]
    return [*opinion_install.command(opinion_install.SPECTRAL, folder), *rules]


def findings(spectral: list[str], file: Path) -> list[Any]:
    done = subprocess.run(
        [*spectral, "--fail-severity", "hint", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode in {0, 1}, done.stderr
    return [
        (each["code"], each["message"], "/".join(map(str, each["path"])))
        for each in json.loads(done.stdout)
    ]


def test_the_openapi_document_has_no_finding(spectral):
    """Issue 9, point 3."""
    assert findings(spectral, CHECKOUT / "openapi" / "openapi.json") == []


def test_an_asyncapi_document_has_no_finding(spectral, tmp_path):
    """Of the kinds of channel that its rules look at."""
    file = tmp_path / "asyncapi.json"
    file.write_text(json.dumps(document(Config.model_validate(CONFIG))))
    assert findings(spectral, file) == []


def test_it_finds_what_is_wrong(spectral, tmp_path):
    """A linter that says nothing to anything proves nothing."""
    file = tmp_path / "asyncapi.json"
    broken = document(Config.model_validate(CONFIG))
    broken["operations"]["send-all"]["channel"] = {"$ref": "#/channels/nowhere"}
    file.write_text(json.dumps(broken))
    assert [code for code, *_ in findings(spectral, file)]
