"""A pytest plugin that prints the time of each folder of tests, and of the slowest files. ``-p time_per_folder``
loads it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

SLOWEST = 40  # files that are listed


def folder_of(nodeid: str) -> str:
    """Return the folder of a test: ``tests/unit`` for ``tests/unit/bindings/test_http.py::test_x``."""
    parts = PurePosixPath(nodeid.partition("::")[0]).parts
    return "/".join(parts[: min(2, len(parts) - 1)])


class TimePerFolder:
    """The sums of set-up, call and tear-down by folder. A slow fixture shows as well as a slow
    test."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tests: Counter[str] = Counter()
        self.files: Counter[str] = Counter()  # milliseconds

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = folder_of(report.nodeid)
        self.seconds[folder] += report.duration
        self.tests[folder] += report.when == "call"
        self.files[report.nodeid.partition("::")[0]] += round(1_000 * report.duration)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("time per folder")
        for line in self._lines():
            terminalreporter.write_line(line)

    def _lines(self) -> Iterator[str]:
        for folder, seconds in sorted(self.seconds.items(), key=lambda item: -item[1]):
            yield f"{seconds:8.1f} s  {self.tests[folder]:6d} tests  {folder}"
        yield f"the {SLOWEST} slowest files:"
        for file, milliseconds in self.files.most_common(SLOWEST):
            yield f"{milliseconds / 1_000:8.1f} s  {file}"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(TimePerFolder(), "time-per-folder")
