"""What the checks of ``lint`` write their findings into, and a check that several of them make."""

from __future__ import annotations

import os
from pathlib import Path as FilePath
from typing import Literal
from urllib.parse import quote

from app.config.load.finding import Finding, Path, did_you_mean, written
from app.config.load.loader import Loaded
from app.config.model.brokers import EmbeddedBroker
from app.delivery.target_url import BadHost, foreign_characters, read_url
from app.errors import SetupError

HOST_CURE = "write a name as hooks.example.org, or an address as 192.0.2.1 or [2001:db8::1]"
_SHOWN = 5  # characters of a URL that a finding names
_FLEETING = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108 - warned of, not used


class Report:
    """The configuration under check, and the findings so far."""

    def __init__(self, loaded: Loaded, *, looks: bool = True) -> None:
        """``looks``: at files of this machine, which callers of the API must not ask for."""
        self.loaded = loaded
        self.looks = looks
        self.config = loaded.config
        self.findings: list[Finding] = []

    def error(self, path: Path, message: str, cure: str) -> None:
        self._add("error", path, message, cure)

    def warning(self, path: Path, message: str, cure: str) -> None:
        self._add("warning", path, message, cure)

    def outdated(self, path: Path, message: str, cure: str) -> None:
        """Report what settings that exist may have and new ones may not: a warning here."""
        self.warning(path, message, cure)

    def refused(self, path: Path, error: SetupError) -> None:
        """A part refused to be made of this setting. ``args[0]`` is the message without the path."""
        self.error(path, str(error.args[0]), error.cure)

    def resolved(self, path: FilePath) -> FilePath:
        """Without ``..``, and with its links followed where files are looked at."""
        if self.looks:
            return path.resolve()
        return FilePath(os.path.abspath(path))  # noqa: PTH100 - resolve would ask the disk

    def lacks_file(self, path: FilePath) -> bool:
        try:
            return self.looks and not path.is_file()
        except PermissionError:  # it may be there: who reads it says more
            return False

    def is_file(self, path: FilePath) -> bool:
        return self.looks and path.exists() and not path.is_dir()

    def is_folder(self, path: FilePath) -> bool:
        return self.looks and path.is_dir()

    def broker(self, path: Path, name: str) -> bool:
        """Whether a broker of that name exists; if not, that is a finding."""
        if name in self.config.brokers:
            return True
        self.error(path, f"there is no broker {name!r}", did_you_mean(name, self.config.brokers))
        return False

    def written_by_others(self, name: str) -> bool:
        """Whether clients that are not ours may write to the broker. An embedded log is ours alone, but
        for its Kafka listener."""
        settings = self.config.brokers.get(name)
        return not isinstance(settings, EmbeddedBroker) or settings.kafka_listener is not None

    def duplicates(self, section: str, field: str, names: list[str]) -> None:
        for n, name in enumerate(names):
            first = names.index(name)
            if first < n:
                self.error(
                    (section, n, field),
                    f"{name!r} is taken by {section}[{first}]",
                    "give every one a name of its own",
                )

    def _add(self, level: Literal["error", "warning"], path: Path, message: str, cure: str) -> None:
        self.findings.append(
            Finding(
                level=level,
                setting=written(path),
                message=self.loaded.redacted(message),
                cure=self.loaded.redacted(cure),
                place=self.loaded.place(*path),
            )
        )


def check_host(report: Report, path: Path, url: str) -> None:
    """Check the host of a URL that is no target of subscriptions."""
    try:
        read_url(url)
    except BadHost as error:
        report.error(path, f"names a host that cannot be looked up: {error}", HOST_CURE)
    except ValueError:
        pass  # the model says more


def check_characters(report: Report, setting: Path, url: str) -> None:
    """Report the characters of a URL that RFC 3986 does not allow: they are encoded when it is used."""
    foreign = foreign_characters(url)
    if foreign:
        report.outdated(
            setting,
            f"has {_named(foreign)}, which RFC 3986 does not allow there: encoded, it is not what is written",
            f"write percent codes: {' '.join(_code(each) for each in foreign[:_SHOWN])}",
        )


def _named(characters: str) -> str:
    shown = [f"{each!r}" if each.isprintable() else f"U+{ord(each):04X}" for each in characters]
    return ", ".join(shown[:_SHOWN]) + (" and others" if shown[_SHOWN:] else "")


def _code(character: str) -> str:
    return quote(character, safe="", errors="surrogatepass")


def check_lasts(report: Report, setting: Path, path: FilePath) -> None:
    """Warns where what lies there is gone after a restart of the machine."""
    if any(report.resolved(path).is_relative_to(fleeting) for fleeting in _FLEETING):
        report.warning(
            setting,
            "is in a folder that the system may empty: acknowledged events would be lost",
            "choose a folder on a persistent disk",
        )
