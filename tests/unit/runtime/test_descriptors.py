"""File descriptors: every listener gets its share, and the admin listener always has some."""

from __future__ import annotations

import logging
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.model.config import Config
from app.features.descriptors import ADMIN, RESERVE, Shares, raise_limit, shares


def config(connections: int = 10_000, kafka: int = 0) -> Config:
    brokers = {
        f"log{n}": {"kind": "embedded", "path": f"l{n}", "kafka_listener": f"127.0.0.1:{n + 1}"}
        for n in range(kafka)
    }
    return Config.model_validate(
        {
            "version": 1,
            "brokers": {"log": {"kind": "embedded", "path": "l"}} | brokers,
            "limits": {"connections": connections},
        }
    )


@pytest.mark.parametrize(
    ("limit", "kafka", "found"),
    [
        (1 << 20, 2, Shares(10_000, 10_000, 1_000)),
        (20_000, 0, Shares(10_000, 9_744, 1_000)),
        (1_024, 0, Shares(704, 64, 70)),
        (1_024, 1, Shares(640, 64, 64)),
        (64, 0, Shares(32, 16, 3)),
    ],
)
def test_listeners_share_what_the_system_allows(limit: int, kafka: int, found: Shares) -> None:
    assert shares(config(kafka=kafka), limit) == found


@given(st.integers(16, 1 << 17), st.integers(1, 1 << 17), st.integers(0, 3))
def test_all_shares_together_leave_the_reserve(limit: int, connections: int, kafka: int) -> None:
    found = shares(config(connections, kafka), limit)
    used = found.events + found.admin + kafka * found.kafka
    assert used <= limit - min(RESERVE, limit // 4) + kafka + 1  # each listener gets at least one
    assert found.admin >= min(ADMIN, limit // 4, connections)
    assert found.events >= 1


def test_a_limit_that_cannot_be_raised_is_logged_with_its_cure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = [256, 1_024]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.__setitem__(slice(None), new))
    with caplog.at_level(logging.WARNING):
        raise_limit(config())
    assert limits == [1_024, 1_024]
    (line,) = (each.getMessage() for each in caplog.records)
    assert "1024 file descriptors, so the events listener accepts 704 connections" in line
    assert "LimitNOFILE" in line


def test_the_unit_file_asks_for_what_the_defaults_need() -> None:
    unit = Path(__file__).parents[3] / "docs" / "examples" / "skybridge-gateway@.service"
    (line,) = (each for each in unit.read_text().splitlines() if each.startswith("LimitNOFILE="))
    assert shares(config(kafka=1), int(line.partition("=")[2])).events == 10_000
