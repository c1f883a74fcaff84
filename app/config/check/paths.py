"""The files and folders that a configuration names, resolved from the working directory."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from app.config.lint.secret_files import secret_files
from app.config.load.finding import Path as Setting
from app.config.load.finding import written
from app.config.model.config import Config
from app.model.places import located


class NamedPath(NamedTuple):
    """A path that a setting names. ``kind`` is log, store or file."""

    kind: str
    setting: Setting
    path: Path

    def __str__(self) -> str:
        return f"{self.kind:<7} {self.path}  ({written(self.setting)})"


def named_paths(config: Config) -> list[NamedPath]:
    """Return each absolute path once, with the first setting that names it: logs, the store, files."""
    found: dict[Path, NamedPath] = {}
    for setting, path in (*located(Path, config), *secret_files(config)):
        whole = path.absolute()
        found.setdefault(whole, NamedPath(_kind(setting), setting, whole))
    return sorted(found.values(), key=lambda each: ("log", "store", "file").index(each.kind))


def _kind(setting: Setting) -> str:
    match setting:
        case ("brokers", _, "path"):
            return "log"
        case ("store", "path"):
            return "store"
    return "file"
