"""Every file that ``skybridge init`` can write is a configuration without errors."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from app.cli.init import files
from app.config.check.source import ConfigSource
from app.config.starter.choices import KEY, LOCAL, PULL, SENDERS, BrokerKind, StarterChoices
from app.config.starter.trial import first_error

ADDRESSES = {
    "embedded": [""],
    "kafka": ["", "kafka-1:9092,kafka-2:9092"],
    "rabbitmq": ["", "rabbit-1:5672"],
    "pulsar": ["", "pulsar+ssl://pulsar-1:6651", "pulsar://a:6650,b:6650/"],
}
SINKS = [
    *("", PULL, "http://127.0.0.1:9000/hook", "http://localhost/", "http://[::1]:9000/hook"),
    *("https://billing.example/hook", "https://10.1.2.3/hook", "http://192.168.0.7:8080/"),
    *("http://billing.shop.svc.cluster.local/in?a=1&b='2'", 'https://h.example/a"b\\c#d: - e'),
]
JUST = (
    "the only copy of the parked events",  # the store on one disk, where the broker is elsewhere
    "crosses the network without TLS",  # the password of guest, at a RabbitMQ elsewhere
    "The user name is guest",
    "The URL has a fragment",
    "Skybridge sends it percent-encoded",  # a URL with characters that a URL may not have
)


@pytest.fixture(autouse=True)
def in_a_place_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths are judged from where the service starts, and a clone may lie in /tmp."""
    monkeypatch.chdir("/")


@st.composite
def choices(draw: st.DrawFn) -> StarterChoices:
    broker = draw(st.sampled_from(get_args(BrokerKind)))
    senders = draw(st.lists(st.sampled_from(SENDERS), min_size=1, unique=True))
    return StarterChoices(
        broker=broker,
        address=draw(st.sampled_from(ADDRESSES[broker])),
        senders=tuple(each for each in senders if each != KEY or LOCAL not in senders),
        sink=draw(st.sampled_from(SINKS)),
        signed=draw(st.booleans()),
    )


@given(choices())
def test_every_combination_passes_check(chosen: StarterChoices) -> None:
    """And has no warning, but for those that follow from an answer."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shop.yaml"
        files.write(placed := structs.replace(chosen, file=str(file)))
        source = ConfigSource(file, os.environ)
        loaded, findings = source.findings(source.read())
        assert loaded is not None, findings
        warnings = [each for each in findings if not any(just in each.message for just in JUST)]
        assert warnings == []
        assert first_error(placed, "", os.environ) is None
        config = loaded.config
        assert [each.kind for each in config.brokers.values()] == [chosen.broker]
        assert {each.name for each in config.intakes} == {*chosen.senders} - {LOCAL, KEY}
        assert len(config.producers) == (KEY in chosen.senders)
        assert len(config.subscriptions) == bool(chosen.sink)
