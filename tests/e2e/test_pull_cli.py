"""``skybridge pull`` and ``tail --subscription`` against a real service."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from delivery_installation import numbered
from forked import SKYBRIDGE, completed
from pull_processes import PATIENCE, PullServiceProcess


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[PullServiceProcess]:
    service = PullServiceProcess(tmp_path / "service", {"lock": "60s"})
    await service.start()
    yield service
    await service.close()


async def run(service: PullServiceProcess, *words: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(completed, *words, "--server", service.admin)


async def causes(service: PullServiceProcess) -> list[str]:
    answer = await service.http.get(f"{service.admin}/v1/dead-letters")
    found = answer.json()
    return [each["cause"] for each in (found if isinstance(found, list) else found["dead_letters"])]


async def test_what_is_printed_is_acknowledged(service):
    """And in order: a key hands out one at a time, and the verb asks again."""
    await service.publish(numbered(0, 6, keys=2))
    await service.until_status(waiting=6)
    done = await run(service, "pull", "billing", "--no-follow", "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert sorted(int(each["id"]) for each in events) == list(range(6))
    for key in ("/k0", "/k1"):
        mine = [int(each["id"]) for each in events if each["source"] == key]
        assert mine == sorted(mine)
    again = await run(service, "pull", "billing", "--no-follow")
    assert (again.returncode, again.stdout) == (0, "")


async def test_the_exit_code_of_a_command_decides(service, tmp_path):
    """0 acknowledges, 65 rejects, any other releases; the event is on standard input."""
    await service.publish(numbered(0, 3, keys=3))
    await service.until_status(waiting=3)
    script = tmp_path / "deal.py"
    script.write_text(
        "import json, sys\n"
        "number = json.load(sys.stdin)['data']['n']\n"
        "sys.exit({0: 0, 1: 65}.get(number, 7))\n"
    )
    command = f"{sys.executable} {script}"
    done = await run(service, "pull", "billing", "--exec", command, "--limit", "3", "--delay", "0")
    assert done.returncode == 0, done.stderr
    assert "1 acknowledged" in done.stderr
    assert "1 rejected" in done.stderr
    assert "1 released" in done.stderr
    assert await causes(service) == ["rejected"]
    (left,) = await service.receive(wait=5)
    assert (left["event"]["id"], left["broker_properties"]["delivery_count"]) == ("2", 2)


async def test_a_signal_ends_it_and_gives_back_what_it_held(service, tmp_path):
    """Others need not wait for a lock to run out."""
    await service.publish(numbered(0, 3, keys=3))
    await service.until_status(waiting=3)
    begun = tmp_path / "begun"
    command = f"touch {begun}; exec sleep 60"
    words = [SKYBRIDGE, "pull", "billing", "--exec", command, "--server", service.admin]
    process = await asyncio.create_subprocess_exec(*words, start_new_session=True)
    async with asyncio.timeout(PATIENCE):
        while not begun.exists():
            await asyncio.sleep(0.05)
    assert await service.receive() == []
    os.killpg(process.pid, signal.SIGTERM)  # as Ctrl+C: all of its group
    assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    assert len(await service.receive(wait=5)) == 2  # the third waits for its delay


async def test_a_subscription_is_looked_on(service):
    await service.publish(numbered(0, 3, keys=1))
    seen = await run(
        service, "tail", "--subscription", "billing", "--from", "earliest", "--no-follow", "--json"
    )
    assert [json.loads(line)["id"] for line in seen.stdout.splitlines()] == ["0", "1", "2"]
    told = await run(
        service, "tail", "--subscription", "billing", "--from", "earliest", "--no-follow"
    )
    assert "com.example.counted 2 /k0" in told.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("tail",),
        ("tail", "events", "--subscription", "billing"),
        ("tail", "--subscription", "billing", "--from", "latest-3"),
        ("tail", "--subscription", "billing", "--raw"),
    ],
)
async def test_what_cannot_be_tailed_is_said(service, words):
    answer = await run(service, *words)
    assert (answer.returncode, "cure" in answer.stderr) == (2, True)


async def test_a_subscription_that_is_not_there_is_said(service):
    answer = await run(service, "pull", "nobody", "--no-follow")
    assert answer.returncode == 1
    assert "subscription nobody does not exist" in answer.stderr
