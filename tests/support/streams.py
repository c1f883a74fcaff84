"""A pytest plugin that shares the tests among processes. ``-p streams --streams 4`` loads it.

One process collects the tests, which takes ten seconds of processor time, and then forks the streams. Each stream
takes one unit of work after another from a common pipe. A unit is a file of tests, or a folder whose tests share a
Spark or a browser. The streams send their reports to the first process, which prints them. ``--streams 0`` forks
none.
"""

from __future__ import annotations

import atexit
import os
import signal
import struct
import sys
import threading
import traceback
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest

from server_process import die_with_parent

UNITS = ("tests/pipeline/", "tests/console/")
"""The folders that one stream runs whole, because their tests share a Spark or a browser."""

_NUMBER = struct.Struct("<I")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--streams", type=int, default=0, help="share the tests among N processes")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.streams:
        config.pluginmanager.register(_Streams(config.option.streams), "streams-of-tests")


def unit_of(nodeid: str) -> str:
    """Return the unit of work of a test: a folder of ``UNITS``, or its file."""
    file = nodeid.partition("::")[0]
    return next((each for each in UNITS if file.startswith(each)), file)


class Units:
    """The units of work in order. Each is taken once, by any process that has inherited the pipe."""

    def __init__(self, items: Sequence[pytest.Item]) -> None:
        by_unit: dict[str, list[pytest.Item]] = {}
        for name, of_name in groupby(items, key=lambda item: unit_of(item.nodeid)):
            by_unit.setdefault(name, []).extend(of_name)
        self._units = list(by_unit.values())
        self._numbers, give = os.pipe()
        with os.fdopen(give, "wb") as pipe:  # 64 KiB have room for 16,000 units
            pipe.write(b"".join(map(_NUMBER.pack, range(len(self._units)))))

    def take(self) -> Iterator[pytest.Item]:
        """Yield the tests of one unit after another, until no unit is left."""
        while number := os.read(self._numbers, _NUMBER.size):
            yield from self._units[_NUMBER.unpack(number)[0]]

    def drop(self) -> None:
        """Leave no unit for any process."""
        while os.read(self._numbers, 1 << 16):
            pass


class _Streams:
    """The loop that runs the tests, in place of pytest's own."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._begun: defaultdict[int, str] = defaultdict(str)  # the last test by process number

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest's own loop reports it
        units = Units(session.items)
        running = dict(self._forked(session, units) for _ in range(self._count))
        try:
            while running:
                for reports in wait(list(running)):
                    try:
                        messages = reports.recv()
                    except EOFError:
                        self._end(running.pop(reports))
                    else:
                        for message in messages:
                            self._hear(session, running[reports], *message)
                if session.shouldfail:
                    units.drop()
        finally:
            for pid in running.values():  # none, unless the run ends early
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        return True

    def _forked(self, session: pytest.Session, units: Units) -> tuple[Any, int]:
        """Fork a stream. Return the connection of its reports, and its process number."""
        here, there = Pipe(duplex=False)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            here.close()
            _Stream(session, there).run(units)
        there.close()
        return here, pid

    def _hear(self, session: pytest.Session, pid: int, kind: str, values: Any) -> None:
        """Pass one message of a stream to the hooks of this process."""
        hook = session.config.hook
        if kind == "begin":
            self._begun[pid] = values
        elif kind == "end":
            hook.pytest_runtest_logfinish(**values)
        elif kind == "error":
            self._begun[pid] += f"\n{values}"
        elif kind == "warning":
            hook.pytest_warning_recorded.call_historic(kwargs=values)
        else:
            report = hook.pytest_report_from_serializable(config=session.config, data=values)
            hook.pytest_runtest_logreport(report=report)

    def _end(self, pid: int) -> None:
        """Note that a stream has ended. Raise RuntimeError if it did not end by itself."""
        _, status = os.waitpid(pid, 0)
        if code := os.waitstatus_to_exitcode(status):
            raise RuntimeError(
                f"a stream of tests ended with {code}, at or after {self._begun[pid]}"
            )


class _Stream:
    """A forked process that runs units of work and sends its reports: those of a test when the next test begins."""

    def __init__(self, session: pytest.Session, reports: Connection) -> None:
        self._session = session
        self._config = session.config
        self._reports = reports
        self._unsent: list[tuple[str, Any]] = []

    def run(self, units: Units) -> None:
        """Run units until none is left, and end the process."""
        code = 1
        try:
            if ends := die_with_parent():
                ends()
            self._begin()
            self._loop(units.take())
            code = 0
        except BaseException:  # noqa: BLE001 - the first process shows it
            self._unsent.append(("error", traceback.format_exc()))
        finally:
            with suppress(Exception):
                self._send()
                self._reports.close()
                threading._shutdown()  # waits for threads, as at any end
                atexit._run_exitfuncs()
            os._exit(code)

    def _begin(self) -> None:
        """Print nothing from here on, and capture the output of tests apart from other streams."""
        plugins = self._config.pluginmanager
        for name in ("terminalreporter", "time-per-folder", "streams-of-tests"):
            if plugins.has_plugin(name):
                plugins.unregister(name=name)
        capturing = plugins.getplugin("capturemanager")
        capturing.stop_global_capturing()
        capturing.start_global_capturing()
        plugins.register(self, "stream-of-tests")

    def _loop(self, items: Iterator[pytest.Item]) -> None:
        item = next(items, None)
        while item is not None and not self._session.shouldfail:
            following = next(items, None)  # its fixtures stay if the following test needs them
            self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following

    def _send(self) -> None:
        self._reports.send(self._unsent)
        self._unsent = []

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._unsent.append(("begin", nodeid))
        self._send()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._unsent.append(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._unsent.append(("end", {"nodeid": nodeid, "location": location}))

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        known = warning_message
        text = f"{known.category.__name__}: {known.message}"  # its own class may not be importable
        plain = warnings.WarningMessage(Warning(text), Warning, known.filename, known.lineno)
        values = {"warning_message": plain, "when": when, "nodeid": nodeid, "location": location}
        self._unsent.append(("warning", values))
