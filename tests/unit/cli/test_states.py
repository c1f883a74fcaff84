"""One word for one state, and a noun that fits its number."""

from __future__ import annotations

import pytest

from app.cli.printing import counted
from app.cli.states import state_word


@pytest.mark.parametrize(
    ("state", "paused_for", "sink", "word"),
    [
        ("running", None, "https://x.example/", "running"),
        ("paused", None, "https://x.example/", "paused"),
        ("paused", 12.5, "https://x.example/", "target fails"),
        ("paused", 1.0, "pull", "queue full"),
        ("disabled", 3.0, "https://x.example/", "disabled"),
    ],
)
def test_a_state_is_called_as_in_the_console(
    state: str, paused_for: float | None, sink: str, word: str
) -> None:
    """``paused`` alone is what a person did."""
    assert state_word({"state": state, "paused_for": paused_for, "sink": sink}) == word


def test_a_number_has_its_noun() -> None:
    assert [counted(n, "dead letter") for n in (0, 1, 1200)] == [
        "0 dead letters",
        "1 dead letter",
        "1,200 dead letters",
    ]
    assert counted(2, "entry", "entries") == "2 entries"
