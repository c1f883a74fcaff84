"""Who hears SIGTERM, and what a second one does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from app.runtime import signals as signals_module
from app.runtime.signals import Signals, until_asked

STUBBORN = """
import asyncio
from app.runtime.signals import Signals

async def main():
    with Signals() as signals:
        print("up", flush=True)
        await signals.asked.wait()
        print("asked", flush=True)
        while True:
            pass

asyncio.run(main())
"""


async def test_a_signal_asks_to_leave() -> None:
    """SIGTERM from an orchestrator, SIGINT from a keyboard: the same wish."""
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(60):
            await signals.asked.wait()


def test_a_second_signal_ends_a_process_whose_loop_is_stuck() -> None:
    """Whoever asks twice means it; what was acknowledged is on the disk already (rule 1)."""
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == b"asked\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM


async def test_until_asked_ends_an_endless_stream() -> None:
    """skybridge tail must end on Ctrl+C also while nothing comes."""

    async def stream() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    with Signals() as signals:
        found = []
        async for item in until_asked(stream(), signals):
            found.append(item)
            asyncio.get_running_loop().call_soon(signals.leave)
    assert found == [1]


async def test_until_asked_gives_a_finite_stream_to_its_end() -> None:
    """--no-follow ends by itself."""

    async def stream() -> AsyncIterator[int]:
        for number in range(3):
            yield number

    with Signals() as signals:
        assert [item async for item in until_asked(stream(), signals)] == [0, 1, 2]


@pytest.mark.parametrize(("before", "after"), [(False, False), (True, True), (True, False)])
async def test_a_hang_up_rereads_unless_the_terminal_is_gone(
    monkeypatch: pytest.MonkeyPatch, before: bool, after: bool
) -> None:
    """SIGHUP means the file; whoever closes the terminal of a service wants it to end (ADR 0023)."""
    monkeypatch.setattr(signals_module, "has_terminal", lambda: before)
    with Signals(rereads=True) as signals:
        monkeypatch.setattr(signals_module, "has_terminal", lambda: after)
        gone = before and not after
        os.kill(os.getpid(), signal.SIGHUP)
        async with asyncio.timeout(60):
            await (signals.asked if gone else signals.hung_up).wait()
        assert signals.asked.is_set() == gone
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
