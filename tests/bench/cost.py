"""What a process has cost so far, as Linux accounts it: CPU time and memory, never wall time."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds of one unit in /proc/PID/stat


def cpu_seconds(pid: int) -> float:
    """utime + stime of all threads of the process, in steps of a clock tick (10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK


def tree(pid: int) -> list[int]:
    """The process and all that it and its children have started and that still run; empty once it has ended."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:  # it has ended
        return []
    below: list[int] = []
    for thread in threads:
        with contextlib.suppress(OSError):  # the thread has ended, not the process
            below += map(int, (thread / "children").read_text().split())
    return [pid, *(each for child in below for each in tree(child))]


def cpu_of_tree(pid: int) -> float:
    """Seconds of the process, of all below it, and of those below that have ended and were waited for."""
    total = 0.0
    for each in tree(pid):
        with contextlib.suppress(OSError):
            total += _with_ended(each)
    return total


def _with_ended(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * _TICK  # its own two, and those of its children


@dataclass(frozen=True)
class Memory:
    """Resident now, and at its highest, in MB."""

    now: float
    peak: float

    def __str__(self) -> str:
        return f"{self.now:.0f}/{self.peak:.0f}"

    def __add__(self, other: Memory) -> Memory:
        return Memory(self.now + other.now, self.peak + other.peak)


def memory(pid: int) -> Memory:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    sizes = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines)
             if name in {"VmRSS", "VmHWM"}}  # fmt: skip
    return Memory(now=int(sizes["VmRSS"]) / 1024, peak=int(sizes["VmHWM"]) / 1024)


def memory_of_tree(pid: int) -> Memory:
    """The sum over the processes; pages that they share count once for each."""
    found = Memory(0.0, 0.0)
    for each in tree(pid):
        with contextlib.suppress(OSError, KeyError):  # it has ended; a zombie has no memory
            found += memory(each)
    return found


def proportional_of_tree(pid: int) -> float:
    """MB of the processes, in which a page that several share counts once (proc(5), smaps_rollup)."""
    total = 0.0
    for each in tree(pid):
        with contextlib.suppress(OSError, StopIteration):  # it has ended
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return total


def forget_peak(pid: int) -> None:
    """What was taken to begin does not count (proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
