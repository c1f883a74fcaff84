"""Judge proposed configurations without blocking the event loop: small ones in a thread, others in a process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from app.api.http.problems import RequestRefused
from app.config.diff.judging import judge
from app.model.judgement import Judgement

IN_THREAD = 16 << 10  # bytes of both configurations, whose longest C call takes a few ms
WITHIN = 120.0  # seconds for a process, including its start
_RETRY = "Cure: try again, or run `skybridge check FILE` and `skybridge plan` where the file is."


class Judges:
    """A judge of proposed configurations. One process runs at a time, to limit memory; other requests wait.

    The process gets neither the environment nor open files of the service, so it cannot read the service's
    secrets.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def judge(self, proposed: bytes, shown: Mapping[str, Any]) -> Judgement:
        """Return the judgement of a proposed configuration. Raise Refused with 503 if the process fails or
        takes too long.

        ``shown`` is the current configuration without secrets.
        """
        in_force = await asyncio.to_thread(msgspec.json.encode, shown)
        if len(proposed) + len(in_force) <= IN_THREAD:
            return await asyncio.to_thread(judge, proposed, shown)
        async with self._turn:
            answer = await _ask_process(b"%d\n%b%b" % (len(proposed), proposed, in_force))
        return msgspec.json.decode(answer, type=Judgement)


async def _ask_process(question: bytes) -> bytes:
    """Run the process that judges a configuration. Pass ``question`` on its standard input, and return its answer."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "app.config.diff.judging"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        async with asyncio.timeout(WITHIN):
            answer, _ = await process.communicate(question)
    except TimeoutError:
        raise _failed(f"the check took more than {WITHIN:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise _failed(f"the process of the check ended with {process.returncode}")
    return answer


def _failed(why: str) -> RequestRefused:
    return RequestRefused(
        503, "not-now", f"The proposed configuration could not be checked: {why}. {_RETRY}"
    )
