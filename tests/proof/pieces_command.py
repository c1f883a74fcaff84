"""The command line of runs in pieces: run the next piece, or judge all pieces and write their row into the page."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from proof.brokers import LOGS
from proof.checker import CONVICTED, judge, report
from proof.pieces import Pieces
from proof.runs_page import write


def parser_of(name: str, about: str, *, keys: int) -> argparse.ArgumentParser:
    """Return the options that all runs in pieces have. ``keys`` is the usual number of keys."""
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.add_argument("--log", choices=LOGS, default="embedded")
    parser.add_argument("--folder", type=Path, required=True, help="history and log of the run")
    parser.add_argument("--minutes", type=float, default=9.0, help="of a piece, without its ends")
    parser.add_argument("--keys", type=int, default=keys)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judge", action="store_true", help="run nothing, and judge all pieces")
    parser.add_argument("--write", type=Path, help="with --judge: the page of the row")
    return parser


def run_or_judge(
    name: str,
    asked: argparse.Namespace,
    piece: Callable[[Pieces, argparse.Namespace], Coroutine[Any, Any, None]],
) -> int:
    """Run the next piece, or judge all pieces. Return the code with which the program ends."""
    pieces = Pieces(asked.folder)
    if not asked.judge:
        asyncio.run(piece(pieces, asked))
        return 0
    judgement = judge(pieces.files)
    print(report(judgement, pieces.files))
    totals = pieces.judged(asked.log, asked.seed)
    if totals.unfinished:
        print("The last piece did not end. What was still to be delivered counts as lost.")
    if asked.write:
        write(asked.write, name, totals, judgement)
    return judgement.code or (CONVICTED if totals.unfinished else 0)
