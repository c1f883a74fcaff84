"""What is wrong, or looks wrong, with a configuration: one finding a line, with its cure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal

import msgspec

from app.errors import SetupError
from app.telemetry.printable import printable

Path = tuple[str | int, ...]
"""Where a setting stands in the document: ``("routes", 0, "to")``."""


class Location(msgspec.Struct, frozen=True):
    """Where a value was written: a line and a column of the file, both from 1, or the environment
    variable that overrides the file. All zero and empty: it is a default."""

    line: int = 0
    column: int = 0
    variable: str = ""


NOWHERE = Location()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """``setting`` is the path as text (``routes[0].to[0].broker``), ``cure`` what to do about it. As text it is one line.
    No finding ever contains a value that came out of ``${env:}``, ``${file:}`` or a secret setting.
    """

    level: Literal["error", "warning"]
    setting: str
    message: str
    cure: str = ""
    place: Location = NOWHERE

    @property
    def line(self) -> int:
        return self.place.line

    def __str__(self) -> str:
        where = self.place.variable or (f"line {self.place.line}" if self.place.line else "")
        start = " ".join(part for part in (where and f"{where}:", self.level) if part)
        setting = f" {self.setting}:" if self.setting else ":"
        cure = f" Cure: {self.cure}" if self.cure else ""
        return printable(f"{start}{setting} {self.message}{cure}")


class BadConfiguration(SetupError):
    """Everything that is wrong with one configuration, at once."""

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
        """Where the findings are, and how many."""
        count = len(self.findings)
        source = printable(self.source) or "configuration"
        return f"{source}: {count} error{'s' if count > 1 else ''}"

    def __str__(self) -> str:
        return "\n".join([self.head, *(f"  {finding}" for finding in self.findings)])


def written(path: Path) -> str:
    """``("routes", 0, "to")`` as ``routes[0].to``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A cure for a misspelt name: the nearest known one, else all of them."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"known here: {', '.join(names)}" if names else "nothing is known here"
