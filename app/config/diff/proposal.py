"""Read a configuration that a caller of the API proposes, without its secrets.

No reference is resolved, no environment variable is applied and no file is read, because the caller
may not read what the service can. A reference is compared as text. If the model rejects that text,
for example for a number, a placeholder value replaces it, and findings about it are hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.config.lint.checks import CHECKS
from app.config.lint.report import LintReport
from app.config.load.document import Document, parse
from app.config.load.finding import BadConfiguration, Finding, Path, written
from app.config.load.loader import Loaded
from app.config.load.problems import describe_error, findings_of
from app.config.load.secrets import collect_references
from app.config.model.config import Config

_PLACEHOLDERS = (
    *("1", "1s", "1MiB", "true", "latest", "/stand-in", "stand-in:1", "stand-in.example"),
    *("https://stand-in.example", "pulsar://stand-in.example:6650"),
    *("postgresql://stand-in.example/stand_in", "stand-in-{partition}", "A" * 43 + "="),
)
_WORD = re.compile(r"'([^']*)'")


def propose(raw: bytes) -> tuple[Loaded, list[Finding]]:
    """Return the proposed configuration and its warnings. Raise BadConfiguration with every error."""
    document = parse(raw)
    references = collect_references(document)
    config = _validated_or_raise(document, references)
    loaded = Loaded(config, "", document, references, may_read_files=False)
    report = LintReport(loaded, may_read_files=False)
    for check in CHECKS:
        check(report)
    hidden = set(map(written, references))
    findings = _sorted(each for each in report.findings if each.setting not in hidden)
    if errors := [each for each in findings if each.level == "error"]:
        raise BadConfiguration(errors)
    return loaded, findings


class _Placeholders:
    """The placeholder values to try in place of one reference. The first are the words that the
    setting allows, then one value of each type, such as a number.
    """

    def __init__(self) -> None:
        self._tried: set[str] = set()

    def next(self, detail: ErrorDetails) -> str | None:
        """Return the next placeholder that was not tried yet, or None."""
        context = detail.get("ctx", {})
        choices: list[str] = _WORD.findall(
            context.get("expected", "") or context.get("expected_tags", "")
        )
        for each in (*choices, *_PLACEHOLDERS):
            if each not in self._tried:
                self._tried.add(each)
                return each
        return None


def _validated_or_raise(document: Document, references: Mapping[Path, str]) -> Config:
    config = _validated(document, references)
    if document.findings:
        raise BadConfiguration(_sorted(document.findings))
    return config


def _validated(document: Document, references: Mapping[Path, str]) -> Config:
    placeholders = {path: _Placeholders() for path in references}
    while True:
        try:
            return Config.model_validate(document.root)
        except ValidationError as error:
            if not _replaced(document, error, placeholders):
                raise _refused(document, error, references) from None


def _refused(
    document: Document, error: ValidationError, references: Mapping[Path, str]
) -> BadConfiguration:
    hidden = set(map(written, references))
    found = findings_of(error, document, set(references))
    safe = [_unjudged(each) if each.setting in hidden else each for each in found]
    return BadConfiguration(_sorted([*document.findings, *safe]))


def _replaced(
    document: Document, error: ValidationError, placeholders: Mapping[Path, _Placeholders]
) -> bool:
    """Replace each reference that the model rejects by its next placeholder. Return False if all
    placeholders were tried already.
    """
    replaced = False
    for detail in error.errors(include_url=False):
        path, *_ = describe_error(detail, document.root, set(placeholders))
        value = placeholders[path].next(detail) if path in placeholders else None
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
    """Return the finding with another message: the setting is a reference, whose value the API does
    not check.
    """
    return structs.replace(
        finding,
        message="The value has a reference, which is not resolved here, so it cannot be checked.",
        cure="Check the file where the service runs, with skybridge check FILE.",
    )


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda found: (found.line, found.place.column))
