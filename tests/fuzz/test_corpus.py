"""Every input that a fuzzer has found, and every seed, passes its check. ``make fuzz`` finds new ones."""

from __future__ import annotations

import pytest

from fuzz.corpus import FOLDER, kept
from fuzz.shortest import shortest
from fuzz.target import MODULES, target


@pytest.mark.parametrize("name", MODULES)
def test_kept_inputs_pass(name: str) -> None:
    """Seeds are valid inputs, and kept inputs have found faults or reach code that others do not."""
    chosen = target(name)
    assert chosen.seeds
    for data in (*chosen.seeds, *kept(name)):
        chosen.check(data)


def test_every_kept_file_has_a_target() -> None:
    """Otherwise nothing would replay it."""
    assert {file.stem for file in FOLDER.glob("*.txt")} <= set(MODULES)


def test_an_input_is_shortened_to_what_makes_it_fail() -> None:
    """An input of which every byte counts shows the fault."""

    def check(data: bytes) -> None:
        assert b"a" not in data or b"b" not in data

    assert shortest(check, b"..a......b....") == b"ab"
