"""Waits of a long load end with its condition, or when nothing moves: not when a machine is slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

import pytest

from verifier import while_moving
from waiting import until, wait_until

SHORT = 0.02  # seconds
LONG = 10  # turns, each of them as long as the patience


def turns() -> Callable[[], bool]:
    """A condition that is true at its last turn."""
    number = count(1)
    return lambda: next(number) > LONG


async def test_a_wait_goes_on_while_the_load_moves() -> None:
    await until(turns(), within=SHORT, turn=SHORT, moved=count().__next__)
    wait_until(turns(), within=SHORT, turn=SHORT, moved=count().__next__)


async def test_a_wait_ends_when_nothing_moves() -> None:
    with pytest.raises(TimeoutError, match=r"not within 0.02 s: the end"):
        await until(lambda: False, "the end", within=SHORT, moved=lambda: 7)
    with pytest.raises(TimeoutError, match=r"not within 0.02 s: the end"):
        wait_until(lambda: False, "the end", within=SHORT, moved=lambda: 7)


async def test_the_verifier_goes_on_while_its_load_moves_and_no_longer() -> None:
    await while_moving(asyncio.sleep(LONG * SHORT), count().__next__, SHORT)
    with pytest.raises(TimeoutError):
        await while_moving(asyncio.sleep(60), lambda: 0, SHORT)


async def test_a_fault_of_the_work_is_raised_as_it_is() -> None:
    async def broken() -> None:
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        await while_moving(broken(), lambda: 0, 60)
