"""Validate what remains of a document without its faulty settings.

pydantic checks a section as a whole only if each of its settings is valid. So one faulty setting would
hide the other faults of its section, and all checks of ``lint``. A faulty setting is removed, or gets a
substitute if it is required, until the remainder is valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.config.load.document import Document
from app.config.load.finding import Finding, Path, written
from app.config.load.problems import describe_error
from app.config.model.config import Config
from app.model.places import value_at

_PASSES = 8  # each pass leaves out more, up to the sections themselves
_NAMED = "left-out"
_STAND_INS: Mapping[str, Any] = {
    "version": 1,
    "preset": "github",
    "id": _NAMED,
    "name": _NAMED,
    "sink": "https://left-out.invalid/",
    "topic": _NAMED,
    "topics": [_NAMED],
    "bootstrap_servers": "left-out.invalid:9092",
    "addresses": "left-out.invalid:5672",
    "service_url": "pulsar://left-out.invalid:6650",
}
"""Values of required settings whose own value is faulty, by name."""
_MEANT = re.compile(r"Did you mean (.+)\?")
_CAUSED = ("too_short", "union_tag")  # errors that leaving out a part may cause


class Remainder:
    """The part of a document that is valid.

    Attributes:
        config: The configuration of that part, or None if too little is left.
        document: The part as a document, with the locations of the whole document.
        origins: The path in the whole document by each path in the part.
        findings: Faults that the first validation did not find.
    """

    def __init__(self, whole: Document, hidden: set[Path]) -> None:
        self.config: Config | None = None
        self.document = Document()
        self.origins: dict[Path, Path] = {}
        self.findings: list[Finding] = []
        self._whole, self._hidden = whole, hidden
        self._known = {each.setting for each in whole.findings}
        self._left_out: set[Path] = set()
        self._stand_ins: set[Path] = set()
        for _ in range(_PASSES):
            self._build()
            try:
                self.config = Config.model_validate(self.document.root)
            except ValidationError as error:
                if not self._shrink(error):
                    return
            else:
                return

    def setting(self, text: str) -> str:
        """Return the text of a setting of this part as the whole document has it."""
        for here, origin in self._moved():
            if text.startswith(here) and text[len(here) : len(here) + 1] in {"", ".", "["}:
                return origin + text[len(here) :]
        return text

    def _moved(self) -> Iterator[tuple[str, str]]:
        """Yield the settings whose index differs, as texts, the innermost first."""
        for here, origin in sorted(self.origins.items(), key=lambda each: -len(each[0])):
            if here != origin:
                yield written(here), written(origin)

    def is_doubtful(self, setting: str, text: str) -> bool:
        """Return True if a finding may be due to what was left out.

        It is about such a setting, its text mentions one, or its value is the name of a section that was
        left out.
        """
        missing = [*self._left_out, *self._stand_ins]
        if any(_is_within(setting, written(path)) for path in missing):
            return True
        if setting in self._known:
            return True
        return any(_mentions(text, word) for word in self._words())

    def _words(self) -> set[str]:
        """Return the names of what was left out: of settings, and of sections that others refer to."""
        words = {_NAMED}
        for path in self._left_out | self._stand_ins:
            words.add(str(next(step for step in reversed(path) if isinstance(step, str))))
            value = value_at(self._whole.root, path)
            if isinstance(value, dict):
                words |= {str(value[name]) for name in ("id", "name") if name in value}
        return words

    def _build(self) -> None:
        self.document, self.origins = Document(), {}
        self.document.root = self._kept(self._whole.root, (), ())
        self.document.root.setdefault("version", 1)
        for here, origin in self.origins.items():
            if place := self._whole.places.find(origin):
                self.document.places.add(here, place)

    def _kept(self, value: Any, origin: Path, here: Path) -> Any:
        self.origins[here] = origin
        if origin in self._stand_ins:
            return _stand_in(origin)
        match value:
            case dict():
                inner = {
                    name: self._kept(each, (*origin, name), (*here, name))
                    for name, each in value.items()
                    if (*origin, name) not in self._left_out
                }
                absent = [path for path in self._stand_ins if path[:-1] == origin]
                return inner | {path[-1]: _stand_in(path) for path in absent}
            case list():
                kept = [n for n in range(len(value)) if (*origin, n) not in self._left_out]
                return [
                    self._kept(value[n], (*origin, n), (*here, at)) for at, n in enumerate(kept)
                ]
        return value

    def _shrink(self, error: ValidationError) -> bool:
        """Leave out the settings at fault, and add the faults that are new. Return False if nothing
        can be left out.
        """
        hidden = {here for here, origin in self.origins.items() if origin in self._hidden}
        before = self._left_out | self._stand_ins
        for detail in error.errors(include_url=False):
            here, message, cure = describe_error(detail, self.document.root, hidden)
            path = self._origin(here)
            if not self._is_caused(detail, path, f"{message} {cure}"):
                self._add(path, message, cure)
            for each in self._at_fault(path, detail):
                self._leave_out(each, detail)
        return before != self._left_out | self._stand_ins

    def _at_fault(self, path: Path, detail: ErrorDetails) -> list[Path]:
        """Return the settings to leave out: for settings of a section that contradict each other, those
        that the message names.
        """
        section = value_at(self._whole.root, path)
        if detail["type"] != "value_error" or not isinstance(section, dict):
            return [path]
        named = [(*path, name) for name in section if _mentions(detail["msg"], str(name))]
        return [each for each in named if each not in self._left_out] or [path]

    def _origin(self, here: Path) -> Path:
        rest: Path = ()
        while here not in self.origins:
            here, rest = here[:-1], (here[-1], *rest)
        return (*self.origins[here], *rest)

    def _is_caused(self, detail: ErrorDetails, path: Path, text: str) -> bool:
        if path in self._left_out:
            return True
        inside = any(each[: len(path)] == path for each in self._left_out | self._stand_ins)
        if inside and detail["type"].startswith(_CAUSED):
            return True
        is_one = detail["type"] == "value_error" and inside
        return is_one and (self.is_doubtful("", text) or self._lacks_misspelt(text))

    def _lacks_misspelt(self, text: str) -> bool:
        """Return True if a text mentions a setting that was left out because it is misspelt."""
        cures = [each.cure for each in (*self._whole.findings, *self.findings)]
        meant = [found[1] for cure in cures if (found := _MEANT.fullmatch(cure))]
        return any(_mentions(text, each) for each in meant)

    def _add(self, path: Path, message: str, cure: str) -> None:
        setting = written(path)
        if setting in self._known:
            return
        self._known.add(setting)
        place = self._whole.place(path)
        self.findings.append(
            Finding(level="error", setting=setting, message=message, cure=cure, place=place)
        )

    def _leave_out(self, path: Path, detail: ErrorDetails) -> None:
        """Leave out the setting, or the section around it if the setting is required. One of fixed choices gets its
        substitute.
        """
        is_choice = detail["type"] == "literal_error" and str(path[-1]) in _STAND_INS
        if is_choice and path not in self._stand_ins:
            self._stand_ins.add(path)
            return
        if detail["type"].startswith("union_tag") and path[-1:] == ("kind",):
            path = path[:-1]
        elif detail["type"] == "missing" or path in self._left_out:
            self._left_out.discard(path)
            if str(path[-1]) in _STAND_INS and path not in self._stand_ins:
                self._stand_ins.add(path)
                return
            path = path[:-1]
        if path:
            self._stand_ins.discard(path)
            self._left_out.add(path)


def _stand_in(path: Path) -> Any:
    value, number = _STAND_INS[str(path[-1])], "-".join(str(n) for n in path if isinstance(n, int))
    return f"{value}-{number}" if value == _NAMED and number else value


def _mentions(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def _is_within(setting: str, around: str) -> bool:
    """Return True if a setting is ``around`` or inside it, both as text."""
    return setting.startswith(around) and setting[len(around) : len(around) + 1] in {"", ".", "["}
