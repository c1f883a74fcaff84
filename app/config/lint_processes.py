"""Checks of how many processes take events."""

from __future__ import annotations

import os
import sys

from app.config.report import Report

_PATH = ("server", "workers")


def check_processes(report: Report) -> None:
    wanted = report.config.server.workers
    if wanted == 1:
        return
    if sys.platform != "linux":
        report.error(
            _PATH, "processes share a port evenly on Linux alone", "leave it at 1 on this machine"
        )
        return
    have = len(os.sched_getaffinity(0))
    if wanted > have:
        report.warning(
            _PATH,
            f"{wanted} processes on {have} processor{'s' if have > 1 else ''} take turns, and each costs memory",
            "name at most as many as there are processors",
        )
