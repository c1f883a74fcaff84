"""The report to which the checks of ``lint`` add their findings, and functions that several checks
share.
"""

from __future__ import annotations

import os
from pathlib import Path as FilePath
from typing import Literal
from urllib.parse import quote

from app.config.load.finding import (
    Finding,
    Path,
    cure_sentence,
    did_you_mean,
    problem_sentence,
    written,
)
from app.config.load.loader import Loaded
from app.config.model.brokers import EmbeddedBroker
from app.delivery.target_url import BadHost, foreign_characters, read_url
from app.errors import SetupError

HOST_CURE = (
    "Write a name such as hooks.example.org, or an address such as 192.0.2.1 or [2001:db8::1]."
)
_SHOWN = 5  # characters of a URL that a finding names
_FLEETING = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108 - compared, not used


class LintReport:
    """The configuration that is being checked, and the findings so far."""

    def __init__(self, loaded: Loaded, *, may_read_files: bool = True) -> None:
        """Create an empty report. ``may_read_files`` is False if a caller of the API sent the
        configuration: the checks then read no files of this machine.
        """
        self.loaded = loaded
        self.may_read_files = may_read_files
        self.config = loaded.config
        self.findings: list[Finding] = []

    def error(self, path: Path, message: str, cure: str) -> None:
        self._add("error", path, message, cure)

    def warning(self, path: Path, message: str, cure: str) -> None:
        self._add("warning", path, message, cure)

    def outdated(self, path: Path, message: str, cure: str) -> None:
        """Report a value that a new setting may not have, but an existing one may keep. This class
        adds a warning; a subclass may add an error.
        """
        self.warning(path, message, cure)

    def refused(self, path: Path, error: SetupError) -> None:
        """Report a SetupError that other code raised for this setting. ``args[0]`` of the error is
        its message without the path.
        """
        self.error(path, str(error.args[0]), error.cure)

    def resolved(self, path: FilePath) -> FilePath:
        """Return the path without ``..``. Links are followed only if files may be read."""
        if self.may_read_files:
            return path.resolve()
        return FilePath(os.path.abspath(path))  # noqa: PTH100 - resolve would read the disk

    def lacks_file(self, path: FilePath) -> bool:
        try:
            return self.may_read_files and not path.is_file()
        except PermissionError:  # it may exist: reading it later reports more
            return False

    def is_file(self, path: FilePath) -> bool:
        return self.may_read_files and path.exists() and not path.is_dir()

    def is_folder(self, path: FilePath) -> bool:
        return self.may_read_files and path.is_dir()

    def broker(self, path: Path, name: str) -> bool:
        """Return True if a broker of that name exists; otherwise report an error."""
        if name in self.config.brokers:
            return True
        self.error(
            path, f"The broker {name!r} does not exist.", did_you_mean(name, self.config.brokers)
        )
        return False

    def written_by_others(self, name: str) -> bool:
        """Return True if other clients may write to the broker. Clients can write to an embedded
        log only if it has a Kafka listener.
        """
        settings = self.config.brokers.get(name)
        return not isinstance(settings, EmbeddedBroker) or settings.kafka_listener is not None

    def duplicates(self, section: str, field: str, names: list[str]) -> None:
        for n, name in enumerate(names):
            first = names.index(name)
            if first < n:
                self.error(
                    (section, n, field),
                    f"The {field} {name!r} is already used by {section}[{first}].",
                    f"Choose another {field}.",
                )

    def _add(self, level: Literal["error", "warning"], path: Path, message: str, cure: str) -> None:
        self.findings.append(
            Finding(
                level=level,
                setting=written(path),
                message=self.loaded.redacted(problem_sentence(message)),
                cure=self.loaded.redacted(cure_sentence(cure)),
                place=self.loaded.place(*path),
            )
        )


def check_host(report: LintReport, path: Path, url: str) -> None:
    """Report a host that cannot be looked up, or a port that does not exist. The URL is not the target of a
    subscription.
    """
    try:
        read_url(url)
    except BadHost as error:
        report.error(path, f"The URL has a host that cannot be looked up: {error}.", HOST_CURE)
    except ValueError:
        report.error(
            path,
            "The value is not a URL.",
            "Write the value as https://host:port/path, with a port from 1 to 65535.",
        )


def check_characters(report: LintReport, setting: Path, url: str) -> None:
    """Report characters of a URL that RFC 3986 does not allow. When the URL is used, these
    characters are percent-encoded.
    """
    foreign = foreign_characters(url)
    if foreign:
        report.outdated(
            setting,
            f"The URL has {_named(foreign)}, which a URL may not have (RFC 3986). Skybridge sends it percent-encoded.",
            f"Write percent codes: {' '.join(_code(each) for each in foreign[:_SHOWN])}.",
        )


def _named(characters: str) -> str:
    shown = [f"{each!r}" if each.isprintable() else f"U+{ord(each):04X}" for each in characters]
    return ", ".join(shown[:_SHOWN]) + (" and others" if shown[_SHOWN:] else "")


def _code(character: str) -> str:
    return quote(character, safe="", errors="surrogatepass")


def check_persistent(report: LintReport, setting: Path, path: FilePath) -> None:
    """Warn if the folder loses its files at a restart of the machine."""
    if any(report.resolved(path).is_relative_to(fleeting) for fleeting in _FLEETING):
        report.warning(
            setting,
            "The path is in a folder that the operating system may empty, so acknowledged events may be lost.",
            "Choose a folder on a persistent disk.",
        )
