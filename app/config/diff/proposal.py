"""A configuration that somebody proposes over the API, read without its secrets.

No reference is resolved, no environment variable applied, no file looked for: a user that may propose must not read
what the service may read. A reference is compared as its text. Where the model takes no such text (a number,
an address), a stand-in is judged in its place, and what is found there is not told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.config.lint.checks import CHECKS
from app.config.lint.report import Report
from app.config.load.document import Document, parse
from app.config.load.finding import BadConfiguration, Finding, Path, written
from app.config.load.loader import Loaded
from app.config.load.problems import said, translate
from app.config.load.secrets import keep
from app.config.model.config import Config

_STAND_INS = (
    *("1", "1s", "1MiB", "true", "latest", "/stand-in", "stand-in:1", "stand-in.example"),
    *("https://stand-in.example", "pulsar://stand-in.example:6650"),
    *("postgresql://stand-in.example/stand_in", "stand-in-{partition}", "A" * 43 + "="),
)
_WORD = re.compile(r"'([^']*)'")


def propose(raw: bytes) -> tuple[Loaded, list[Finding]]:
    """With its warnings. Raises BadConfiguration with every error."""
    document = parse(raw)
    references = keep(document)
    config = _judged(document, references)
    loaded = Loaded(config, "", document, references, looks=False)
    report = Report(loaded, looks=False)
    for check in CHECKS:
        check(report)
    hidden = set(map(written, references))
    findings = _sorted(each for each in report.findings if each.setting not in hidden)
    if errors := [each for each in findings if each.level == "error"]:
        raise BadConfiguration(errors)
    return loaded, findings


class _StandIns:
    """For one reference: words that the setting may be, then one of each form."""

    def __init__(self) -> None:
        self._tried: set[str] = set()

    def next(self, detail: ErrorDetails) -> str | None:
        context = detail.get("ctx", {})
        choices: list[str] = _WORD.findall(
            context.get("expected", "") or context.get("expected_tags", "")
        )
        for each in (*choices, *_STAND_INS):
            if each not in self._tried:
                self._tried.add(each)
                return each
        return None


def _judged(document: Document, references: Mapping[Path, str]) -> Config:
    config = _fitted(document, references)
    if document.findings:
        raise BadConfiguration(_sorted(document.findings))
    return config


def _fitted(document: Document, references: Mapping[Path, str]) -> Config:
    stand_ins = {path: _StandIns() for path in references}
    while True:
        try:
            return Config.model_validate(document.root)
        except ValidationError as error:
            if not _replaced(document, error, stand_ins):
                raise _refused(document, error, references) from None


def _refused(
    document: Document, error: ValidationError, references: Mapping[Path, str]
) -> BadConfiguration:
    hidden = set(map(written, references))
    found = translate(error, document, set(references))
    told = [_unjudged(each) if each.setting in hidden else each for each in found]
    return BadConfiguration(_sorted([*document.findings, *told]))


def _replaced(
    document: Document, error: ValidationError, stand_ins: Mapping[Path, _StandIns]
) -> bool:
    """The next stand-in for each reference that the model refuses; False where none is left to try."""
    replaced = False
    for detail in error.errors(include_url=False):
        path, *_ = said(detail, document.root, set(stand_ins))
        value = stand_ins[path].next(detail) if path in stand_ins else None
        if value is not None:
            _put(document.root, path, value)
            replaced = True
    return replaced


def _put(root: Any, path: Path, value: str) -> None:
    *above, last = path
    for step in above:
        root = root[step]
    root[last] = value


def _unjudged(finding: Finding) -> Finding:
    return structs.replace(
        finding,
        message="holds a reference, which is not resolved here, so it cannot be judged",
        cure="check the file where the service runs: skybridge check FILE",
    )


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda found: (found.line, found.place.column))
