"""What ``skybridge pipeline erase`` asks and tells whoever sits before it. What it erases: test_archive, test_verbs.

The lake is a stand-in: none of this needs Spark.
"""

from __future__ import annotations

from unittest import mock

import pytest
from typer.testing import CliRunner, Result

from app.cli.commands import app as cli
from app.cli.pipeline import erase as verb
from app.pipeline import erase
from app.pipeline.erase import Erased

FOUND = [Erased("events_raw", 3), Erased("quarantine", 0), Erased("events", 2)]
GONE = [Erased("events_raw", 3, 4, 5), Erased("quarantine", 0, 1, 0), Erased("events", 2, 2, 2)]


class Standing:
    """``asked``: what it was told to erase. ``session``: that it has ended is to be seen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.session = mock.Mock()
        monkeypatch.setattr(verb, "load_configuration", mock.Mock())
        monkeypatch.setattr(verb, "open_lake", lambda *_, **__: (self.session, mock.Mock()))
        monkeypatch.setattr(erase, "find", lambda *_: FOUND)
        monkeypatch.setattr(erase, "erase", self._erase)

    def _erase(self, *given: object, **_: object) -> list[Erased]:
        self.asked.append(given[2:])
        return GONE

    def invoke(self, *words: str, answer: str = "") -> Result:
        """At a terminal, where ``answer`` is typed."""
        with mock.patch.object(verb, "sys", mock.Mock(stdin=mock.Mock(isatty=lambda: True))):
            return CliRunner().invoke(cli, ["pipeline", "erase", *words], input=answer)


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Standing:
    return Standing(monkeypatch)


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_nothing_goes_where_the_answer_is_no_yes(standing: Standing, answer: str) -> None:
    """The counts stand in the question; no answer at all is a no."""
    found = standing.invoke("--subject", "a", answer=answer)
    assert found.exit_code != 0
    assert (
        "3 of events_raw, 0 of quarantine, 2 of events, and every older snapshot?" in found.stderr
    )
    assert standing.asked == []
    assert standing.session.stop.called


def test_a_yes_at_the_question_erases(standing: Standing) -> None:
    found = standing.invoke("--source", "/shops/closed", answer="y\n")
    assert found.exit_code == 0, found.output
    assert standing.asked == [("source", "/shops/closed")]
    told = found.stdout.splitlines()[1:]  # behind what was typed
    assert [line.split() for line in told] == [
        ["TABLE", "REMOVED_ROWS", "REMOVED_SNAPSHOTS", "REMOVED_FILES"],
        ["events_raw", "3", "4", "5"],
        ["quarantine", "0", "1", "0"],
        ["events", "2", "2", "2"],
    ]


def test_a_dry_run_only_counts_and_asks_nothing(standing: Standing) -> None:
    found = standing.invoke("--subject", "a", "--dry-run")
    assert found.exit_code == 0, found.output
    assert standing.asked == []
    assert "Remove" not in found.output
    assert [line.split() for line in found.stdout.splitlines()] == [
        ["TABLE", "ROWS_TO_REMOVE"],
        ["events_raw", "3"],
        ["quarantine", "0"],
        ["events", "2"],
    ]
