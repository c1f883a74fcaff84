"""``skybridge`` verbs as child processes, found by what they announce with ``--json``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

START_WITHIN = 240.0  # seconds; eight suites may share two cores
STOPS_WITHIN = 120.0


class Child:
    """One verb at work. ``said``: its first line of output, read as JSON."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path, said: Any) -> None:
        self.process = process
        self.log = log
        self.said = said

    async def line(self) -> Any:
        """Its next line of output, read as JSON."""
        assert self.process.stdout is not None
        async with asyncio.timeout(START_WITHIN):
            return json.loads(await self.process.stdout.readline())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        async with asyncio.timeout(STOPS_WITHIN):
            return await self.process.wait()

    async def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.signal(signal.SIGTERM)
        return await self.ended()


@contextlib.asynccontextmanager
async def running(folder: Path, *words: str) -> AsyncIterator[Child]:
    """``skybridge <words> --json`` in ``folder``; killed at the end if it still runs."""
    log = folder / f"{words[0]}.log"
    with log.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            *command(words), "--json",
            cwd=folder, env=environment(), stdout=asyncio.subprocess.PIPE, stderr=stderr,
        )  # fmt: skip
    child = Child(process, log, None)
    try:
        try:
            child.said = await child.line()
        except (TimeoutError, json.JSONDecodeError):
            raise AssertionError(f"skybridge {words[0]} said nothing:\n{log.read_text()}") from None
        yield child
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """``skybridge <words>`` to its end: exit code, output, errors."""
    process = await asyncio.create_subprocess_exec(
        *command(words), cwd=folder, env=environment(),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(STOPS_WITHIN):
            out, err = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    return process.returncode or 0, out.decode(), err.decode()


def command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "app", *words]


def environment() -> dict[str, str]:
    """Ours, without settings of somebody's own service."""
    root = str(Path(__file__).parents[2])
    own = {name: text for name, text in os.environ.items() if not name.startswith("SKYBRIDGE_")}
    return {**own, "PYTHONPATH": root}
