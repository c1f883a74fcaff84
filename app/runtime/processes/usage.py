"""What a process has used so far, as Linux accounts it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds of one unit in /proc/PID/stat
_PAGE = os.sysconf("SC_PAGE_SIZE")
_USER, _SYSTEM, _RESIDENT = 11, 12, 21  # fields behind the name of the program


class Usage(NamedTuple):
    """Seconds of processor time, bytes of memory."""

    cpu: float
    resident: int


NONE = Usage(0.0, 0)


def usage_of(pid: int) -> Usage:
    """Nothing for a process that is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return NONE
    fields = text.rpartition(")")[2].split()
    cpu = (int(fields[_USER]) + int(fields[_SYSTEM])) * _TICK
    return Usage(cpu, int(fields[_RESIDENT]) * _PAGE)
