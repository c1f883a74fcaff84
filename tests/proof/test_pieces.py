"""A run in pieces continues where it stopped, is judged as one history, and has one row of the page."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from proof.checker import judge
from proof.history import Delivery, Event, Fault, Request, Terms
from proof.pieces import PieceHistory, Pieces, UnfinishedPiece
from proof.pieces_command import parser_of, run_or_judge
from proof.runs_page import write

TERMS = Terms({"steady": "events"})


def exchange(history: PieceHistory, number: int) -> None:
    """Write a request and its delivery, one second after those of the number before."""
    event = Event(f"key0-{number}", "key0", "hash")
    history.write(Request("service", number, number + 0.1, 202, (event,)))
    history.write(Delivery("steady", "service", number + 0.2, number + 0.3, 204, (event,)))


def run_piece(pieces: Pieces, first: int) -> None:
    history = pieces.begin(pieces.totals("embedded", 1), TERMS)
    exchange(history, first)
    history.write(Fault("killed", "service", first + 0.5, first + 0.6))
    exchange(history, first + 1)
    history.totals.next["key0"] = first + 2
    pieces.end(history, 10.0)


def test_the_next_piece_continues_and_all_are_one_history(tmp_path: Path) -> None:
    run_piece(Pieces(tmp_path), 0)
    assert Pieces(tmp_path).totals("embedded", 1).next == {"key0": 2}
    run_piece(Pieces(tmp_path), 2)
    totals = Pieces(tmp_path).totals("embedded", 1)
    assert (totals.pieces, totals.acknowledged, totals.seconds) == (2, 4, 20.0)
    assert totals.faults == {"killed": 2}
    judgement = judge(Pieces(tmp_path).files)
    assert (judgement.code, judgement.counts["acknowledged"]) == (0, 4)


def test_a_piece_that_did_not_end_ends_its_run(tmp_path: Path) -> None:
    """Its events could arrive in the next piece, which would not know them."""
    pieces = Pieces(tmp_path)
    pieces.begin(pieces.totals("embedded", 1), TERMS).close()
    with pytest.raises(UnfinishedPiece):
        Pieces(tmp_path).totals("embedded", 1)


def unfinished_piece(pieces: Pieces, number: int, *, delivered: bool) -> None:
    """Begin a piece, and leave it while its last event waits if it is not ``delivered``."""
    history = pieces.begin(pieces.totals("embedded", 1), TERMS)
    exchange(history, number)
    history.write(Fault("killed", "service", number + 0.5, number + 0.6))
    if not delivered:
        event = Event(f"key0-{number + 1}", "key0", "hash")
        history.write(Request("service", number + 1, number + 2, 202, (event,)))
    history.close()


def judged(folder: Path) -> tuple[int, str]:
    """Judge the run of a folder into a new page. Return the exit code, and the row."""
    page = folder.with_suffix(".md")
    page.write_text("<!-- kills -->\n\n| embedded | of an earlier run |\n<!-- end of kills -->\n")
    words = ["--folder", str(folder), "--judge", "--write", str(page)]
    code = run_or_judge("kills", parser_of("kills", "", keys=1).parse_args(words), never)
    return code, next(row for row in page.read_text().splitlines() if row.startswith("| embedded"))


async def never(_: Pieces, __: argparse.Namespace) -> None:
    raise AssertionError("a piece was run")


def test_a_run_that_loses_events_does_not_end_and_is_convicted(tmp_path: Path) -> None:
    run_piece(Pieces(tmp_path / "run"), 0)
    unfinished_piece(Pieces(tmp_path / "run"), 2, delivered=False)
    code, row = judged(tmp_path / "run")
    assert code == 1
    assert row.startswith(
        "| embedded | 4 | 0 | 2 killed | 3 | 0 | did not end, convicted: 1 lost | 2 | 12 |"
    )


def test_a_run_that_did_not_end_is_never_clean(tmp_path: Path) -> None:
    unfinished_piece(Pieces(tmp_path / "run"), 0, delivered=True)
    code, row = judged(tmp_path / "run")
    assert code == 1
    assert "| did not end |" in row


def test_a_folder_has_one_run(tmp_path: Path) -> None:
    run_piece(Pieces(tmp_path), 0)
    with pytest.raises(ValueError, match="a run of embedded with seed 1"):
        Pieces(tmp_path).totals("kafka", 1)


def test_a_run_has_one_row_of_its_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- kills -->\n\n<!-- end of kills -->\nafter\n")
    pieces = Pieces(tmp_path / "run")
    for first in (0, 2):
        run_piece(pieces, first)
        write(page, "kills", pieces.totals("embedded", 1), judge(pieces.files))
    rows = [line for line in page.read_text().splitlines() if line.startswith("| embedded")]
    assert len(rows) == 1
    assert rows[0].startswith("| embedded | 4 | 0 | 2 killed | 4 | 0 | clean | 2 | 20 |")
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")
