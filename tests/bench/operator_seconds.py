"""The seconds of an operator's day, step by step: ``make operator-day``.

The steps are those of ``e2e/test_operator_day``, with each command as a person starts it: a new interpreter.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

import table

from operator_day import Step, operator_day

PART = "a day of an operator"
HEADINGS = ["the operator", "command", "seconds"]
OUTAGE = 10.0  # seconds: the repair finds the targets in pauses of at least this length
SKYBRIDGE = Path(sys.executable).with_name("skybridge")


async def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """Run ``skybridge`` to its end, and return exit code, output and errors."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        SKYBRIDGE, *words, cwd=folder, env=os.environ, stdout=pipe, stderr=pipe
    )
    printed, errors = await process.communicate()
    return process.returncode or 0, printed.decode(), errors.decode()


async def played() -> list[Step]:
    with tempfile.TemporaryDirectory(prefix="skybridge-day-") as name:
        async with operator_day(Path(name), run, outage=OUTAGE) as day:
            return await day.play()


class StepLine:
    """A step as a row of the table."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def cells(self) -> list[str]:
        return [self._step.what, f"`{self._step.command}`", f"{self._step.seconds:.1f}"]


def part(steps: list[Step], load: float) -> str:
    """Return the table of the steps with date and machine. ``load`` is the load of the machine by other programs."""
    lines = [*table.machine(), f"Load average before the first step: {load:.1f}."]
    remarks = "\n".join(f"- {line}" for line in lines)
    return f"{table.table([StepLine(each) for each in steps], HEADINGS)}\n\n{remarks}\n"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path, help="write the table into this page")
    options = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    text = part(asyncio.run(played()), load)
    print(text)
    if options.write:
        options.write.write_text(table.with_part(options.write.read_text(), PART, text))


if __name__ == "__main__":
    main(sys.argv[1:])
