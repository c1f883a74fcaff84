"""Checks of the files that secrets are read from."""

from __future__ import annotations

import stat
from pathlib import Path as FilePath

from app.config.derived.paths import secret_files
from app.config.lint.report import LintReport


def check_secret_files(report: LintReport) -> None:
    """Warn of a secret in a file that every user of the machine can read."""
    for setting, path in secret_files(report.config) if report.may_read_files else ():
        if _others_read(path):
            report.warning(
                setting,
                f"The file {path} has a secret, and every user of this machine can read it.",
                f"Run chmod 600 {path}.",
            )


def _others_read(path: FilePath) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:  # another check reports a file that cannot be read
        return False
