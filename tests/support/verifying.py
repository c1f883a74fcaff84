"""The verifier as a child process, beside a service that is disturbed."""

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
    """``keys`` times ``per_key`` events, and how often something dies while they are posted."""

    keys: int
    per_key: int
    kills: int
    connections: int = CONNECTIONS
    twice: bool = False  # each event is posted again once it is acknowledged

    @property
    def events(self) -> int:
        return self.keys * self.per_key


def verifier(*arguments: str) -> list[str]:
    """Isolated mode: neither this checkout nor the environment puts ``app`` on its path."""
    return [sys.executable, "-I", str(VERIFIER), *arguments]


@contextmanager
def verifying(load: Load, journal: Path, events: int, webhook: int) -> Iterator[Any]:
    process = subprocess.Popen(
        verifier(
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


def acknowledged(journal: Path) -> int:
    """How many events the verifier has had acknowledged by now."""
    return journal.read_bytes().count(b"\n")


def stored(log: Path, journal: Path) -> dict[str, Any]:
    """The verifier's report on the log's own file, ``<log>/log.db``, of a service that has left."""
    found = subprocess.run(
        verifier("log", f"--file={log / 'log.db'}", f"--journal={journal}"),
        check=True,
        capture_output=True,
    )
    report: dict[str, Any] = json.loads(found.stdout)
    return report
