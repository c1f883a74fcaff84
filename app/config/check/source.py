"""Where a configuration comes from: one file and one environment, which can be read again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from app.config.lint.checks import lint
from app.config.load.finding import BadConfiguration, Finding
from app.config.load.loader import Loaded, content, load_text


class Source:
    """``path`` None: without a file. ``environ`` is that of the start: a process cannot be given another."""

    def __init__(self, path: Path | None, environ: Mapping[str, str]) -> None:
        self.path = path
        self._environ = dict(environ)

    @property
    def name(self) -> str:
        return "" if self.path is None else str(self.path)

    def read(self) -> bytes | None:
        """Raises BadConfiguration."""
        return None if self.path is None else content(self.path)

    def load(self, raw: bytes | None) -> Loaded:
        """Raises BadConfiguration with every error at once."""
        return load_text(raw, self.name, self._environ)

    def judge(self, raw: bytes | None) -> tuple[Loaded, list[Finding]]:
        """What may run, with its warnings. Raises BadConfiguration for errors of the model and of the lint."""
        loaded = self.load(raw)
        findings = lint(loaded)
        errors = [each for each in findings if each.level == "error"]
        if errors:
            raise BadConfiguration(errors, source=self.name)
        return loaded, findings
