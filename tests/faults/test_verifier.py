"""The controls of the kill test: a verifier that cannot fail proves nothing."""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from pathlib import Path

import pytest

import verifier

HISTORY = [(f"key-{key}", number) for number in range(5) for key in range(3)]


def test_a_clean_history_has_nothing_to_report():
    """The other controls mean something only if this one is silent."""
    report = verifier.judge(HISTORY, HISTORY)
    assert (report.lost, report.duplicated, report.order_breaks, report.unacknowledged) == (
        0, 0, 0, 0,
    )  # fmt: skip


def test_a_dropped_event_is_reported_as_lost():
    """Reliability R3: the harness sees the loss it is there to see."""
    report = verifier.judge(HISTORY, [event for event in HISTORY if event != ("key-1", 3)])
    assert report.lost == 1
    assert report.samples["lost"] == [("key-1", 3)]


def test_two_swapped_events_of_one_key_are_a_break_of_order():
    """Reliability G3: per key, and only per key."""
    arrivals = [event for event in HISTORY if event[0] == "key-1"]
    arrivals[1], arrivals[2] = arrivals[2], arrivals[1]
    assert verifier.judge(arrivals, arrivals).order_breaks == 1


def test_two_swapped_events_of_different_keys_are_no_break_of_order():
    """Order is promised within a key, nothing more."""
    arrivals = [*HISTORY]
    arrivals[0], arrivals[1] = arrivals[1], arrivals[0]
    assert verifier.judge(HISTORY, arrivals).order_breaks == 0


def test_a_repeat_is_a_duplicate_and_not_a_break_of_order():
    """At least once allows the repeat; order is judged on first arrivals."""
    report = verifier.judge(HISTORY, [*HISTORY, HISTORY[0]])
    assert (report.duplicated, report.order_breaks) == (1, 0)


def test_an_arrival_that_nobody_acknowledged_is_counted_apart():
    """Stored without its answer is allowed, and must be seen."""
    report = verifier.judge(HISTORY[1:], HISTORY)
    assert (report.unacknowledged, report.lost) == (1, 0)


def test_the_verifier_imports_only_the_standard_library():
    """It shares no code with what it judges (reliability section 3)."""
    tree = ast.parse(Path(verifier.__file__).read_text())
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert names <= set(sys.stdlib_module_names)


@pytest.mark.fault
async def test_a_service_that_acknowledges_and_keeps_nothing_is_caught(tmp_path):
    """The control with the safety off: the whole process, not only its judgement, must fail it."""

    async def liar(reader, writer):
        try:
            while True:
                _, fields = await verifier.read_head(reader)
                await reader.readexactly(int(fields["content-length"]))
                writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(liar, "127.0.0.1", 0)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", verifier.__file__, "run",
        f"--events=http://127.0.0.1:{server.sockets[0].getsockname()[1]}/events",
        "--listen=0", "--keys=5", "--per-key=4", "--connections=2", "--patience=3",
        f"--journal={tmp_path / 'acknowledged'}",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate(b"")
    server.close()
    await server.wait_closed()
    posted, report = map(json.loads, output.splitlines())
    assert posted["in_time"] is False
    assert (report["acknowledged"], report["lost"]) == (20, 20)
