"""A figure of the pipeline's benches, beside what it has to be, and how one program hands it to another."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec

HEADINGS = ["what", "figure", "ratio", "target", ""]


class Figure(msgspec.Struct, frozen=True):
    """``value`` is compared: at least ``target``, or at most where ``most`` says so; None: nothing is asked.

    ``shown``: as a person reads it. ``beside``: what ``value`` is a ratio to; "" where it is none. ``unit``: that of a
    target that is no ratio.
    """

    what: str
    shown: str
    value: float | None = None
    target: float | None = None
    beside: str = ""
    most: bool = False
    unit: str = "s"

    @property
    def met(self) -> bool:
        if self.value is None or self.target is None:
            return True
        return self.value <= self.target if self.most else self.value >= self.target

    def cells(self) -> list[str]:
        ratio = f"{self.value:.2f} of {self.beside}" if self.beside else ""
        asked, verdict = "", ""
        if self.target is not None:
            asked = f"{'≤' if self.most else '≥'} {self.target:g}{'' if self.beside else f' {self.unit}'}".rstrip()
            verdict = "met" if self.met else "missed"
        return [self.what, self.shown, ratio, asked, verdict]


def sized(
    description: str | None, *, short: int, usual: int, rounds: int
) -> argparse.ArgumentParser:
    """What every bench of the pipeline is asked."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help=f"{short:,} events: does it work?")
    parser.add_argument(
        "--events", type=int, default=usual, help=f"how many; {usual:,} unless told"
    )
    told = f"{rounds} unless told; the best counts"
    parser.add_argument("--rounds", type=int, default=rounds, help=told)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    return parser


def told(found: Sequence[Figure], json: Path | None) -> int:
    """Prints them; the code to leave with."""
    for figure in found:
        print("  ".join(cell for cell in figure.cells() if cell))
    if json is not None:
        json.write_bytes(msgspec.json.encode(found))
    return 0 if all(figure.met for figure in found) else 1
