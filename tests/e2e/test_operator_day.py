"""An operator's whole day by the command line: break, see, repair, try now, resume, redrive."""

from __future__ import annotations

from pathlib import Path

from child_service import run
from operator_day import operator_day


async def test_an_operator_brings_every_event_through_a_day_of_broken_targets(
    tmp_path: Path,
) -> None:
    """The targets' own account decides: every order once, and in order per customer."""
    async with operator_day(tmp_path, run) as day:
        await day.play()
