"""Run the verifier as a child process while a test disturbs the service."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERIFIER = Path(__file__).with_name("verifier.py")
CONNECTIONS = 16


@dataclass(frozen=True)
class Load:
    """The size of a load: ``keys`` times ``per_key`` events.

    ``kills`` is how often a process is killed while the events are posted.
    """

    keys: int
    per_key: int
    kills: int
    connections: int = CONNECTIONS
    twice: bool = False  # post each acknowledged event again

    @property
    def events(self) -> int:
        return self.keys * self.per_key


def verifier_command(*arguments: str) -> list[str]:
    """Return the command line of the verifier. Isolated mode keeps ``app`` off its path."""
    return [sys.executable, "-I", str(VERIFIER), *arguments]


@contextmanager
def running_verifier(load: Load, journal: Path, events: int, webhook: int) -> Iterator[Any]:
    process = subprocess.Popen(
        verifier_command(
            "run",
            f"--events=http://127.0.0.1:{events}/events",
            f"--listen={webhook}",
            f"--journal={journal}",
            f"--keys={load.keys}",
            f"--per-key={load.per_key}",
            f"--connections={load.connections}",
            *(["--twice"] if load.twice else []),
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def count_acknowledged(journal: Path) -> int:
    """Return the count of events that the verifier has had acknowledged so far."""
    return journal.read_bytes().count(b"\n")


def report_on_log_file(log: Path, journal: Path) -> dict[str, Any]:
    """Return the verifier's report on ``<log>/log.db``, the file of a service that has ended."""
    found = subprocess.run(
        verifier_command("log", f"--file={log / 'log.db'}", f"--journal={journal}"),
        check=True,
        capture_output=True,
    )
    report: dict[str, Any] = json.loads(found.stdout)
    return report
