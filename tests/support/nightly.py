"""Run every test that ``make test`` leaves out, file by file, and write
docs/nightly.md.

::

    make nightly                                  takes hours
    make nightly ARGS="--part faults --again"     a folder, or a file
    make nightly ARGS="--streams 3"               three at a time

The page is written after each file, so an interrupted run continues where it stopped. Files that
passed on this commit are skipped, unless ``--again`` is given. The slowest files begin first.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from checkout import git
from kafka_install import SERVERS
from pages import CHECKOUT

PAGE = CHECKOUT / "docs" / "nightly.md"
LOGS = SERVERS / "nightly"
PASSED = "passed"
UNKNOWN = 600  # seconds, for the order of files that have no row
LIMIT = 5400  # seconds of a test: several files share the cores, so a limit only ends what hangs
_HEAD = """# Nightly

The tests that `make test` leaves out: full counts, pairs of brokers, clients in other languages, every other kill. `make nightly` runs
them a file at a time and writes this page. `make nightly ARGS="--part faults"` runs one folder, `ARGS="--streams 3"` three files
at a time. An interrupted run continues where it stopped. A row that did not pass is repaired before anything is added
(`tests/docs/test_nightly_page.py`).

| file | result | seconds | commit | date |
|---|---|---|---|---|
"""
_ROW = re.compile(
    r"\| `(?P<file>[^`]+)` \| (?P<result>[^|]+) \| (?P<seconds>\d+) \| (?P<commit>[^|]+) \| (?P<date>[^|]+) \|"
)
_SUMMARY = re.compile(r"^=+ (.+) in [\d.]+s\b.* =+$", re.MULTILINE)
_COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed)")


class Row(NamedTuple):
    """A row of the page: the result of one test file."""

    file: str
    result: str
    seconds: int
    commit: str
    date: str

    @property
    def passed(self) -> bool:
        """Return True if no test of the file failed and at least one passed."""
        counts = {word.rstrip("s"): int(count) for count, word in _COUNTS.findall(self.result)}
        return bool(counts.get(PASSED)) and not (counts.get("failed") or counts.get("error"))

    def __str__(self) -> str:
        return f"| `{self.file}` | {self.result} | {self.seconds} | {self.commit} | {self.date} |\n"


def rows(page: Path = PAGE) -> dict[str, Row]:
    """Return the rows of the page by file."""
    if not page.exists():
        return {}
    found = (match.groupdict() for match in _ROW.finditer(page.read_text()))
    every = (Row(**{**each, "seconds": int(each["seconds"])}) for each in found)
    return {row.file: row for row in every}


def files(parts: Sequence[str] = ()) -> list[str]:
    """Return the test files of these parts that have nightly tests, by default of all."""
    places = [f"tests/{part}" for part in parts] or ["tests"]
    words = ("--collect-only", "-q", "-m", "nightly", "-p", "no:randomly", *places)
    said = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    return sorted({line.partition("::")[0] for line in said.splitlines() if "::" in line})


def run(file: str, commit: str) -> Row:
    """Run the nightly tests of one file to the end. A server that is missing is a failure, as in CI. The
    output of pytest goes to ``.servers/nightly``."""
    log = LOGS / f"{file.removeprefix('tests/').replace('/', '.')}.log"
    begun = time.monotonic()
    with log.open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-m", "nightly", "-rs", f"--timeout={LIMIT}", file],
            cwd=CHECKOUT, stdout=out, stderr=out, check=False, env={**os.environ, "CI": "true"},
        )  # fmt: skip
    seconds = round(time.monotonic() - begun)
    result = outcome(log.read_text(), done.returncode)
    return Row(file, result, seconds, commit, datetime.now(UTC).strftime("%Y-%m-%d"))


def outcome(said: str, code: int) -> str:
    """Return the counts of the last summary that pytest printed.

    Text after the summary is ignored, because libraries may write more when the process ends.
    """
    summaries = _SUMMARY.findall(said)
    counts = _COUNTS.findall(summaries[-1]) if summaries else []
    return (
        ", ".join(f"{count} {word}" for count, word in counts)
        or f"failed: pytest ended with {code}"
    )


def write(known: Collection[Row], page: Path = PAGE) -> None:
    page.write_text(_HEAD + "".join(map(str, sorted(known))))


def _commit() -> str:
    """Return the short name of the commit, marked "with changes" if the working tree differs.

    Results for a changed tree are never reused.
    """
    name = git("rev-parse", "--short", "HEAD").strip()
    own = str(PAGE.relative_to(CHECKOUT))
    changes = [line for line in git("status", "--porcelain").splitlines() if line[3:] != own]
    return f"{name} with changes" if changes else name


def _is_in(file: str, parts: Collection[str]) -> bool:
    """Return True if a test file is one of the parts, or in a folder of them."""
    return any(PurePosixPath(file).is_relative_to(f"tests/{part}") for part in parts)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="nightly", description="Run the tests that make test leaves out."
    )
    parser.add_argument(
        "--part", action="append", help="a folder of tests, or a file in it: faults"
    )
    parser.add_argument(
        "--again", action="store_true", help="also run files that passed on this commit"
    )
    parser.add_argument("--streams", type=int, default=1, help="files that run at the same time")
    asked = parser.parse_args(words)
    LOGS.mkdir(parents=True, exist_ok=True)
    parts = asked.part or ()
    commit, wanted, known = _commit(), files(parts), rows()
    known = {
        file: row
        for file, row in known.items()
        if file in wanted or not _is_in(file, parts or ("",))
    }
    due = [
        file for file in wanted
        if asked.again or "changes" in commit or file not in known
        or known[file].commit != commit or not known[file].passed
    ]  # fmt: skip
    due.sort(key=lambda file: -known[file].seconds if file in known else -UNKNOWN)
    failed = False
    pool = ThreadPoolExecutor(asked.streams)
    running = [pool.submit(run, file, commit) for file in due]
    try:
        for number, done in enumerate(as_completed(running), 1):
            row = done.result()
            known[row.file] = row
            write(known.values())
            failed = failed or not row.passed
            print(f"[{number}/{len(due)}] {row.file}: {row.result} in {row.seconds} s", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
    print(
        f"{len(wanted) - len(due)} passed on this commit before. Page: {PAGE.relative_to(CHECKOUT)}"
    )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
