"""The source of a configuration: one file and one environment, which can be read again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from app.config.lint.checks import lint
from app.config.load.finding import BadConfiguration, Finding
from app.config.load.loader import Loaded, content, load_text


class ConfigSource:
    """The file and the environment of a configuration. ``path`` is None if there is no file.
    ``environ`` has the environment variables at the start of the process.
    """

    def __init__(self, path: Path | None, environ: Mapping[str, str]) -> None:
        self.path = path
        self._environ = dict(environ)

    @property
    def name(self) -> str:
        """Return the name of the file, or empty text without one."""
        return "" if self.path is None else str(self.path)

    def read(self) -> bytes | None:
        """Return the content of the file, or None without one. Raise BadConfiguration if the file
        cannot be read.
        """
        return None if self.path is None else content(self.path)

    def load(self, raw: bytes | None) -> Loaded:
        """Return the loaded configuration, or raise BadConfiguration with every error at once."""
        return load_text(raw, self.name, self._environ)

    def judge(self, raw: bytes | None) -> tuple[Loaded, list[Finding]]:
        """Return the configuration and its warnings. Raise BadConfiguration if the model or a check
        reports an error.
        """
        loaded = self.load(raw)
        findings = lint(loaded)
        errors = [each for each in findings if each.level == "error"]
        if errors:
            raise BadConfiguration(errors, source=self.name)
        return loaded, findings
