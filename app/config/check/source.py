"""The source of a configuration: one file and one environment, which can be read again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from app.config.lint.checks import lint
from app.config.load.finding import BadConfiguration, Finding
from app.config.load.loader import InvalidDocument, Loaded, content, load_base, load_text
from app.config.model.config import Config


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

    def listeners_and_log(self) -> Config:
        """Return a configuration with the valid settings of ``server`` and ``log``, and with defaults
        for everything else. A file that cannot be parsed or read has no valid setting.
        """
        try:
            raw = self.read()
        except BadConfiguration:
            raw = None
        return load_base(raw, self._environ)

    def judge(self, raw: bytes | None) -> tuple[Loaded, list[Finding]]:
        """Return the configuration and its warnings. Raise BadConfiguration if the model or a check
        reports an error.
        """
        try:
            loaded = self.load(raw)
        except InvalidDocument as invalid:
            raise BadConfiguration(every_error(invalid), source=self.name) from None
        findings = lint(loaded)
        errors = [each for each in findings if each.level == "error"]
        if errors:
            raise BadConfiguration(errors, source=self.name)
        return loaded, findings

    def findings(self, raw: bytes | None) -> tuple[Loaded | None, list[Finding]]:
        """Return every error and warning, and the configuration if it fits the model."""
        try:
            loaded = self.load(raw)
        except InvalidDocument as invalid:
            return None, every_error(invalid)
        except BadConfiguration as bad:
            return None, [*bad.findings]
        return loaded, lint(loaded)


def every_error(invalid: InvalidDocument) -> list[Finding]:
    """Return the errors of an invalid document, and those that the checks find in its valid part.

    A finding of a check is left out if an invalid setting may be its cause.
    """
    rest, remainder = invalid.rest(), invalid.remainder
    found = [*invalid.findings]
    for each in lint(rest) if rest is not None else ():
        setting = remainder.setting(each.setting)
        doubtful = remainder.is_doubtful(setting, f"{each.message} {each.cure}")
        if each.level == "error" and not doubtful:
            found.append(structs.replace(each, setting=setting))
    return sorted(found, key=lambda each: (each.line, each.place.column))
