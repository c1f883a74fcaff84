"""Inputs that are kept: a file of each target in ``tests/corpus/fuzz``, an input a line.

A line is Python's literal of the bytes, so that a person can read what is text. The gate replays all of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from pages import CHECKOUT

FOLDER = CHECKOUT / "tests" / "corpus" / "fuzz"


def kept(name: str) -> list[bytes]:
    """Return the kept inputs of a target."""
    file = FOLDER / f"{name}.txt"
    if not file.exists():
        return []
    return [ast.literal_eval(line) for line in file.read_text().splitlines()]


def keep(name: str, inputs: Iterable[bytes]) -> None:
    """Add inputs to those of a target."""
    FOLDER.mkdir(exist_ok=True)
    every = sorted({*kept(name), *inputs}, key=lambda each: (len(each), each))
    (FOLDER / f"{name}.txt").write_text("".join(f"{each!r}\n" for each in every))
