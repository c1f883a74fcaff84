"""Exactly once in S3 while the store freezes and dies, and while drivers are killed. PyIceberg counts the
rows, also those of a typed table.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import pytest

from object_store_lake import TABLE, UNREACHABLE, ObjectStoreLake, walls
from server_process import ServerProcess
from waiting import wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly,  # a JVM for each life of an archive
    pytest.mark.fault,
]

KILLS = int(os.environ.get("SKYBRIDGE_KILLS", "10"))
CLOCK = ""
MOMENTS = ("events_raw", "events", TABLE, "quarantine", CLOCK)
"""The table whose commit is awaited before a kill. At CLOCK, a time decides."""


def _has_all(lake: ObjectStoreLake, archive: subprocess.Popen[bytes]) -> None:
    """Wait until the lake has all records that were sent. The archive goes on meanwhile."""

    def complete() -> bool:
        assert archive.poll() is None, "the archive has ended"
        return lake.has("events_raw", lake.sent.records)

    wait_until(complete, "every record in the lake", 600, turn=1)


@contextmanager
def frozen(server: ServerProcess, seconds: float) -> Iterator[None]:
    """Freeze a server during the context, and for at least so many seconds."""
    end = time.monotonic() + seconds
    server.pause()
    try:
        yield
        time.sleep(max(0.0, end - time.monotonic()))  # the fault itself
    finally:
        server.resume()


@contextmanager
def dead(server: ServerProcess, seconds: float) -> Iterator[None]:
    """Kill a server, and start it again after the context and at least so many seconds."""
    end = time.monotonic() + seconds
    server.kill()
    try:
        yield
        time.sleep(max(0.0, end - time.monotonic()))  # the fault itself
    finally:
        server.start()


def test_each_record_once_while_the_store_freezes_and_dies(stored_lake: ObjectStoreLake) -> None:
    """Frozen for 40 s, dead for 25 s. The archive prints a line for each try, and goes on."""
    stored_lake.fill(2_000)
    with stored_lake.running("archive") as archive:
        _has_all(stored_lake, archive)
        for fault, seconds in ((frozen, 40), (dead, 25)):
            with fault(stored_lake.s3, seconds):
                stored_lake.fill(2_000)
            stored_lake.fill(1_000)
            _has_all(stored_lake, archive)
    said = stored_lake.log.read_text()
    stored_lake.run("archive", "--once", "--json")
    stored_lake.check()
    assert not walls(said)


def test_each_record_once_while_the_catalog_freezes_and_dies(
    rest_lake: ObjectStoreLake, rest: ServerProcess
) -> None:
    rest_lake.fill(2_000)
    with rest_lake.running("archive") as archive:
        _has_all(rest_lake, archive)
        for fault, seconds in ((frozen, 40), (dead, 25)):
            with fault(rest, seconds):
                rest_lake.fill(2_000)
            rest_lake.fill(1_000)
            _has_all(rest_lake, archive)
    said = rest_lake.log.read_text()
    rest_lake.run("archive", "--once", "--json")
    rest_lake.check()
    assert not walls(said)


@pytest.mark.parametrize("catalog", ["stored_lake", "rest_lake"])
def test_each_record_once_through_ten_kills(catalog: str, request: pytest.FixtureRequest) -> None:
    """The driver dies after a commit of each table, and at moments that a clock chooses."""
    lake: ObjectStoreLake = request.getfixturevalue(catalog)
    lake.fill(500)
    stop = threading.Event()

    def fill() -> None:
        while not stop.wait(5):
            lake.fill(200)

    filling = threading.Thread(target=fill)
    filling.start()
    waited = []
    try:
        for n, moment in enumerate(islice(cycle(MOMENTS), KILLS)):
            with lake.running("archive") as process:
                waited += [_taken_over(lake, n)] if n else []
                _await_moment(lake, moment, n)
                assert process.poll() is None, "the kill must come before the end"
    finally:
        stop.set()
        filling.join(60)
    lake.run("archive", "--once", "--json")
    print(f"leases taken over after {[round(each, 1) for each in waited]} s")
    lake.check()
    assert not walls(lake.log.read_text())


def _taken_over(lake: ObjectStoreLake, starts: int) -> float:
    """Wait until this start has the lease of the killed archive, and return the seconds from the
    message with the time to the lease.
    """

    def told() -> bool:
        return lake.log.read_text().count("takes over at") == starts

    wait_until(told, "the time at which the archive takes over", 300)
    begin, number = time.monotonic(), lake.lease()
    wait_until(lambda: lake.lease() > number, "the lease", 300, turn=0.2)
    return time.monotonic() - begin


def _await_moment(lake: ObjectStoreLake, moment: str, n: int) -> None:
    """Wait until this life of the archive has stored records, and then for the moment of the kill."""
    before = lake.snapshot("events_raw")
    wait_until(lambda: lake.snapshot("events_raw") != before, "records of this life", 300)
    if moment == CLOCK:
        time.sleep(n * 0.7)  # the moment of the kill
    elif moment != "events_raw":
        there = lake.snapshot(moment)
        wait_until(lambda: lake.snapshot(moment) != there, "the commit", 300)


def test_an_archive_ends_with_its_java(stored_lake: ObjectStoreLake) -> None:
    """The kernel kills the largest process first, which is Java."""
    stored_lake.fill(200)
    with stored_lake.running("archive") as process:
        wait_until(lambda: stored_lake.has("quarantine", 1), "the first range", 300)
        [java] = _children(process.pid, "java")
        os.kill(java, signal.SIGKILL)
        assert process.wait(60) == UNREACHABLE
    said = stored_lake.log.read_text()
    assert "Java, which runs Spark, has ended" in said
    assert not walls(said)
    stored_lake.run("archive", "--once", "--json")
    stored_lake.check()


def test_a_suspended_archive_that_lost_its_lease_ends(stored_lake: ObjectStoreLake) -> None:
    """Another one has taken the lake over meanwhile."""
    stored_lake.fill(500)
    with stored_lake.running("archive") as first:
        wait_until(lambda: stored_lake.has("quarantine", 1), "the first range", 300)
        wait_until(lambda: stored_lake.has("events_raw", stored_lake.sent.records), "all records")
        os.killpg(first.pid, signal.SIGSTOP)
        stored_lake.fill(500)
        stored_lake.run("archive", "--once", "--json")
        os.killpg(first.pid, signal.SIGCONT)
        assert first.wait(120) != 0
    stored_lake.run("archive", "--once", "--json")
    stored_lake.check()
    assert not walls(stored_lake.log.read_text())


def _children(pid: int, name: str) -> list[int]:
    """Return the children of a process whose program has this name."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(each) for each in children if Path(f"/proc/{each}/comm").read_text().strip() == name
    ]
