"""Proposed configurations are judged beside the loop: what is listed is bounded, and large ones go to a process."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from app.api.http.problems import RequestRefused
from app.config.diff.judging import judge
from app.config.diff.proposal import propose
from app.config.diff.shown import view_of
from app.model.judgement import MOST
from app.runtime.reload import judges
from app.runtime.reload.judges import IN_THREAD, Judges

BEGIN = b"version: 1\nbrokers: {log: {kind: embedded, path: ./log}}\n"


def in_force() -> Any:
    return view_of(propose(BEGIN)[0]).shown


def padded(text: bytes) -> bytes:
    return text + b"# a comment\n" * (IN_THREAD // 10)


def test_remarks_are_listed_up_to_a_bound_errors_first_and_the_rest_is_counted() -> None:
    """80,000 were listed in an answer of 33 MB."""
    routes = ", ".join(f"{{name: r{number}, x: 1}}" for number in range(MOST))
    found = judge(BEGIN + b"routes: [" + routes.encode() + b"]\n", in_force())
    assert not found.valid
    assert len(found.remarks) == MOST
    assert found.more_remarks >= MOST
    assert {each.level for each in found.remarks} == {"error"}


def test_changes_are_listed_up_to_a_bound_and_the_rest_is_counted() -> None:
    routes = [
        {"name": f"r{number}", "to": {"broker": "log", "topic": "t"}} for number in range(MOST + 5)
    ]
    found = judge(BEGIN + b"routes: " + json.dumps(routes).encode(), in_force())
    assert found.valid
    assert (len(found.changes), found.more_changes) == (MOST, 5)


async def test_a_process_judges_as_a_thread_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it has nothing of the environment of the service."""
    monkeypatch.setenv("CANARY", "canary-of-the-service")
    proposed = padded(BEGIN + b"installation: '${env:CANARY}'\nlimits: {body: 2MiB}\n")
    found = await Judges().judge(proposed, in_force())
    assert msgspec.json.encode(found) == msgspec.json.encode(judge(proposed, in_force()))
    assert [each.setting for each in found.changes] == ["installation", "limits.body"]


async def test_a_process_that_takes_too_long_ends_and_is_a_503(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judges, "WITHIN", 0.0)
    with pytest.raises(RequestRefused) as refused:
        await Judges().judge(padded(BEGIN), in_force())
    assert refused.value.status == 503
    assert "skybridge check FILE" in str(refused.value)
