"""What a process has cost so far, as Linux accounts it: CPU time and memory, never wall time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds of one unit in /proc/PID/stat


def cpu_seconds(pid: int) -> float:
    """utime + stime of all threads of the process, in steps of a clock tick (10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK


@dataclass(frozen=True)
class Memory:
    """Resident now, and at its highest, in MB."""

    now: float
    peak: float


def memory(pid: int) -> Memory:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    sizes = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines)
             if name in {"VmRSS", "VmHWM"}}  # fmt: skip
    return Memory(now=int(sizes["VmRSS"]) / 1024, peak=int(sizes["VmHWM"]) / 1024)


def forget_peak(pid: int) -> None:
    """What was taken to begin does not count (proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
