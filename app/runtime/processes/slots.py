"""What the parent knows of each process, and when a dead one is replaced. Time is an argument."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from app.runtime.processes.messages import Process, Roll
from app.runtime.processes.pipe import Pipe

OWNER = 1
FIRST_DELAY, LONGEST_DELAY = 0.5, 10.0  # seconds before a process that dies young is replaced
YOUNG = 10.0  # seconds; what dies older is replaced at once


@dataclass
class Slot:
    """Process ``number``, over all its lives. Times in seconds of a monotonic clock, but ``started``.

    ``due``    when the next one is to start; None while there is one, or none is wanted.
    ``cause``  how the last one ended.
    """

    number: int
    pid: int = 0
    pipe: Pipe | None = None
    up: bool = False
    was_up: bool = False
    restarts: int = -1
    began: float = 0.0
    started: float = 0.0
    due: float | None = None
    cause: str = ""
    early_deaths: int = 0

    @property
    def name(self) -> str:
        return f"process {self.number}"

    def begin(self, pid: int, pipe: Pipe, now: float, wall: float) -> None:
        self.pid, self.pipe, self.up, self.due = pid, pipe, False, None
        self.began, self.started = now, wall
        self.restarts += 1

    def end(self, code: int, now: float) -> float:
        """Seconds until the next one may start. ``code`` as of ``os.waitstatus_to_exitcode``."""
        self.pid, self.up = 0, False
        self.cause = how_it_ended(code)
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None
        self.early_deaths = self.early_deaths + 1 if now - self.began < YOUNG else 0
        delay = 0.0
        if self.early_deaths:
            delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (self.early_deaths - 1))
        self.due = now + delay
        return delay

    def told(self) -> Process:
        return Process(self.number, self.pid, self.up, self.restarts, self.started, self.cause)


def roll_of(slots: Sequence[Slot]) -> Roll:
    return Roll(tuple(slot.told() for slot in slots))


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"it ended with {code}"
    try:
        return f"it was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"
