"""The findings of ``skybridge check``: each has a setting, its location, a problem and a cure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal

import msgspec

from app.errors import SetupError
from app.telemetry.printable import printable

Path = tuple[str | int, ...]
"""The path of a setting in the document: ``("routes", 0, "to")``."""


class Location(msgspec.Struct, frozen=True):
    """The place where a value was written.

    It is a line and a column of the file, both from 1, or the environment variable that overrides
    the file. Zeros and empty text mean a default.
    """

    line: int = 0
    column: int = 0
    variable: str = ""


NOWHERE = Location()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One error or warning about a configuration. As text it is a single line.

    ``setting`` is the path as text (``routes[0].to[0].broker``). A finding never has a value of
    ``${env:…}``, ``${file:…}`` or a secret setting.
    """

    level: Literal["error", "warning"]
    setting: str
    message: str
    cure: str = ""
    place: Location = NOWHERE

    @property
    def line(self) -> int:
        """Return the line in the file, or 0."""
        return self.place.line

    def __str__(self) -> str:
        where = self.place.variable or (f"line {self.place.line}" if self.place.line else "")
        start = " ".join(part for part in (where and f"{where}:", self.level) if part)
        setting = f" {self.setting}:" if self.setting else ":"
        cure = f" Cure: {self.cure}" if self.cure else ""
        return printable(f"{start}{setting} {self.message}{cure}")


class BadConfiguration(SetupError):
    """A configuration is invalid. The error has every finding at once."""

    def __init__(self, findings: Iterable[Finding], *, source: str = "") -> None:
        self.findings = tuple(findings)
        self.source = source
        first = self.findings[0]
        super().__init__(
            "\n".join(str(finding) for finding in self.findings),
            line=first.line,
        )

    @property
    def head(self) -> str:
        """Return the name of the source and the number of errors."""
        count = len(self.findings)
        source = printable(self.source) or "configuration"
        return f"{source}: {count} error{'s' if count > 1 else ''}"

    def __str__(self) -> str:
        return "\n".join([self.head, *(f"  {finding}" for finding in self.findings)])


def written(path: Path) -> str:
    """Return the path as text: ``("routes", 0, "to")`` is ``routes[0].to``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a cure for a misspelt name: the nearest known name, or a list of all."""
    names = sorted(set(known))
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]}?"
    return (
        f"Use one of: {', '.join(names)}."
        if names
        else "Remove the name, because the configuration defines nothing that it could name."
    )


_NO_SUBJECT = re.compile(r"(?:is|has|holds|names|cannot|does|begins|would|should|needs|takes)\b")
_WORD = re.compile(r"[a-z]+ ")
_COMMANDS = ("skybridge", "openssl")


def problem_sentence(text: str) -> str:
    """Return a message as a whole sentence. A message that begins with a verb gets the subject "The
    value".
    """
    text = f"The value {text}" if _NO_SUBJECT.match(text) else text
    return _ended(text[:1].upper() + text[1:] if text.startswith("there is ") else text)


def cure_sentence(text: str) -> str:
    """Return a cure as a sentence with a capital letter and a full stop."""
    if _WORD.match(text) and not text.startswith(_COMMANDS):
        text = text[0].upper() + text[1:]
    return _ended(text)


def _ended(text: str) -> str:
    return f"{text}." if text and not text.endswith((".", "?", "!")) else text


def problem_and_cure(message: str) -> tuple[str, str]:
    """Split the message of a pydantic error into problem and cure. A validator writes the cure
    after ``Cure:``.
    """
    text = message.removeprefix("Value error, ")
    if text.startswith("Input "):
        text = text.replace("Input ", "The value ", 1)
    problem, _, cure = text.partition(" Cure: ")
    return problem_sentence(problem), cure_sentence(cure)
