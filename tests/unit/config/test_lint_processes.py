"""How many processes take events, and on which machine that can be."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

Lint = Callable[..., list[str]]
TEXT = (
    "version: 1\nserver: {{workers: {count}}}\nstore: {{kind: sqlite, path: /srv/s.db}}\n"
    "brokers: {{log: {{kind: embedded, path: /srv/l}}}}\n"
)


def findings(lint_text: Lint, count: int) -> list[str]:
    found = lint_text(TEXT.format(count=count), minimal=False)
    return [each for each in found if "server.workers" in each]


def processors(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(count)), raising=False)


def test_as_many_processes_as_processors_are_fine(
    lint_text: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    processors(monkeypatch, 4)
    assert findings(lint_text, 4) == []


def test_more_processes_than_processors_are_warned_of(
    lint_text: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take turns: no event goes faster for it."""
    monkeypatch.setattr(sys, "platform", "linux")
    processors(monkeypatch, 2)
    (said,) = findings(lint_text, 3)
    assert "warning" in said
    assert "3 processes on 2 processors" in said


def test_a_system_that_does_not_share_ports_refuses_several(
    lint_text: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There one process would get all connections, and none would die with its parent."""
    monkeypatch.setattr(sys, "platform", "darwin")
    (said,) = findings(lint_text, 2)
    assert "error" in said
    assert "leave it at 1" in said
    assert findings(lint_text, 1) == []
