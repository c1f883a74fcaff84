"""Whether what lies in a place is there after a restart of the machine."""

from __future__ import annotations

from pathlib import Path as FilePath

from app.config.finding import Path
from app.config.report import Report

_FLEETING = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108 - warned of, not used


def check_lasts(report: Report, setting: Path, path: FilePath) -> None:
    if any(path.resolve().is_relative_to(fleeting) for fleeting in _FLEETING):
        report.warning(
            setting,
            "is in a place that may be emptied: acknowledged events would be gone",
            "choose a folder on a disk that stays",
        )
