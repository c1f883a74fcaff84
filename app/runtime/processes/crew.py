"""What process 1 knows of all processes: it tells it at ``/status``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from app.api.running import Counts, ProcessState
from app.interfaces import Clock
from app.runtime.processes.child import Child
from app.runtime.processes.messages import Asked, Message, Process, Report, Roll, Series, Told
from app.runtime.processes.slots import OWNER
from app.runtime.processes.usage import NONE, usage_of
from app.sinks.callbacks import Callbacks
from app.telemetry import Counters

SILENT = 10.0  # seconds without a report after which a process is not believed to serve


class Crew:
    """``complete`` is set when every process was there at once. ``callbacks``: what this process asked of
    webhooks, whose consent may come to any of them."""

    def __init__(
        self, child: Child, clock: Clock, counters: Counters, callbacks: Callbacks | None = None
    ) -> None:
        self.complete = asyncio.Event()
        self._child = child
        self._clock = clock
        self._counters = counters
        self._callbacks = callbacks
        self._roll = Roll(())
        self._reports: dict[int, tuple[float, Report]] = {}

    @property
    def begun(self) -> bool:
        """Whether the service as a whole has started. One that is replaced finds the others there."""
        return self.complete.is_set() or not self._child.first

    def take(self, message: Message) -> None:
        match message:
            case Roll():
                self._roll = message
                if message.processes and all(each.up for each in message.processes):
                    self.complete.set()
            case Report():
                self._reports[message.number] = self._clock.monotonic(), message
            case Asked():
                known = self._callbacks is not None and self._callbacks.call(
                    message.key, message.rate
                )
                self._child.pipe.send(Told(message.id, known, message.number))
            case _:
                pass

    def causes(self) -> Sequence[str]:
        """What hinders any of the others, for readiness."""
        return [
            f"process {each.number}: {cause}"
            for each in self.processes()
            if each.number != OWNER
            for cause in each.causes
        ]

    def others_up(self) -> set[int]:
        """Numbers of those beside this one that have started and are there."""
        return {each.number for each in self._roll.processes if each.up and each.number != OWNER}

    def processes(self) -> Sequence[ProcessState]:
        return [self._state(each) for each in self._roll.processes]

    def _state(self, process: Process) -> ProcessState:
        state, causes = self._fares(process)
        usage = usage_of(process.pid) if process.pid else NONE
        uptime = max(0.0, self._clock.now() - process.started) if process.pid else None
        return ProcessState(
            number=process.number,
            pid=process.pid,
            state=state,
            causes=causes,
            restarts=process.restarts,
            last_end=process.cause,
            uptime=uptime,
            cpu_seconds=usage.cpu,
            resident_bytes=usage.resident,
            counters=self._counted(process),
        )

    def _fares(self, process: Process) -> tuple[str, tuple[str, ...]]:
        if not process.pid:
            return "away", (f"{process.cause}; it starts again",)
        if process.number == OWNER:
            return "up", ()
        if not process.up:
            return "starting", ("it is starting",)
        heard, report = self._newest(process)
        silence = self._clock.monotonic() - heard
        if report is not None and silence > SILENT:
            return "silent", (
                f"it has said nothing for {silence:.0f} s: look at pid {process.pid}",
            )
        return "up", () if report is None else report.causes

    def _newest(self, process: Process) -> tuple[float, Report | None]:
        """The report of this life of it."""
        heard, report = self._reports.get(process.number, (0.0, None))
        return (heard, report) if report and report.pid == process.pid else (0.0, None)

    def _counted(self, process: Process) -> Counts:
        if process.number == OWNER:
            return self._counters.values()
        _, report = self._newest(process)
        return {} if report is None else counts_of(report.counters)


def counts_of(series: Series) -> Counts:
    return {name: dict(counts) for name, counts in series.items()}


def series_of(counts: Mapping[str, Mapping[tuple[str, ...], int]]) -> Series:
    return {name: list(each.items()) for name, each in counts.items()}
