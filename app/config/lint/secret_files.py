"""Checks of the files that secrets are read from."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path as FilePath

from app.config.lint.report import LintReport
from app.config.load.finding import Path
from app.config.model.config import Config
from app.model.places import located
from app.model.secret import FileSecret

_PRIVATE = ("key", "token_file")  # settings with the path of a secret


def check_secret_files(report: LintReport) -> None:
    """Warn of a secret in a file that every user of the machine can read."""
    for setting, path in secret_files(report.config) if report.may_read_files else ():
        if _others_read(path):
            report.warning(
                setting,
                f"The file {path} has a secret, and every user of this machine can read it.",
                f"Run chmod 600 {path}.",
            )


def secret_files(config: Config) -> Iterator[tuple[Path, FilePath]]:
    """Yield the files that have a secret or a private key, with their settings."""
    for setting, secret in located(FileSecret, config):
        if secret.path:
            yield setting, FilePath(secret.path)
    for setting, path in located(FilePath, config):
        if setting[-1] in _PRIVATE:
            yield setting, path


def _others_read(path: FilePath) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:  # another check reports a file that cannot be read
        return False
