"""Run ``skybridge`` commands as forked processes, and read what they announce with ``--json``."""

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

from forked import FORKER, Forked

START_WITHIN = 240.0  # seconds; eight suites may share two cores
STOPS_WITHIN = 120.0
LONGEST = 1 << 24  # bytes of one line


class Child:
    """A running ``skybridge`` command. ``announced`` is its first line of output, parsed as JSON."""

    def __init__(self, process: Forked, output: asyncio.StreamReader, log: Path) -> None:
        self.process = process
        self.log = log
        self.announced: Any = None
        self._output = output

    async def line(self) -> Any:
        """Return the next line of output, parsed as JSON."""
        async with asyncio.timeout(START_WITHIN):
            return json.loads(await self._output.readline())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.wait, STOPS_WITHIN)

    async def stop(self) -> int:
        """Send SIGTERM, wait for the end and return the exit code."""
        self.signal(signal.SIGTERM)
        return await self.ended()


@contextlib.asynccontextmanager
async def running_command(folder: Path, *words: str) -> AsyncIterator[Child]:
    """Run ``skybridge <words> --json`` in ``folder``, and kill it at the end of the context if it
    still runs.
    """
    log = folder / f"{words[0]}.log"
    async with contextlib.AsyncExitStack() as closing:
        stderr = closing.enter_context(log.open("ab"))
        output, pipe = await _piped(closing)
        process = await _started(folder, [*words, "--json"], pipe, stderr.fileno())
        closing.callback(process.wait, STOPS_WITHIN)
        closing.callback(process.kill)
        os.close(pipe)
        child = Child(process, output, log)
        try:
            child.announced = await child.line()
        except (TimeoutError, json.JSONDecodeError):
            raise AssertionError(
                f"skybridge {words[0]} printed no line of JSON:\n{log.read_text()}"
            ) from None
        yield child


async def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """Run ``skybridge <words>`` to its end and return exit code, standard output and standard
    error.
    """
    async with contextlib.AsyncExitStack() as closing:
        (output, out), (errors, err) = await _piped(closing), await _piped(closing)
        process = await _started(folder, words, out, err)
        closing.callback(process.wait, STOPS_WITHIN)
        closing.callback(process.kill)
        os.close(out)
        os.close(err)
        async with asyncio.timeout(STOPS_WITHIN):
            printed, logged = await asyncio.gather(output.read(), errors.read())
        code = await asyncio.to_thread(process.wait, STOPS_WITHIN)
    return code, printed.decode(), logged.decode()


async def _piped(closing: contextlib.AsyncExitStack) -> tuple[asyncio.StreamReader, int]:
    """Make a pipe. Return a reader of its readable end, and the file descriptor of its writable end."""
    reads, writes = os.pipe()
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=LONGEST)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(reads, "rb"))
    closing.callback(transport.close)
    return reader, writes


async def _started(folder: Path, words: Sequence[str], out: int, err: int) -> Forked:
    with Path(os.devnull).open("rb") as nothing:
        files = {"stdin": nothing.fileno(), "stdout": out, "stderr": err}
        return await asyncio.to_thread(
            lambda: FORKER.start(words, cwd=folder, env=environment(), **files)
        )


def command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "app", *words]


def environment() -> dict[str, str]:
    """Return the environment of this process without the ``SKYBRIDGE_`` settings of the developer."""
    root = str(Path(__file__).parents[2])
    own = {name: text for name, text in os.environ.items() if not name.startswith("SKYBRIDGE_")}
    return {**own, "PYTHONPATH": root}
