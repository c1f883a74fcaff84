"""Subscriptions that the API makes, held against the same model and the same checks as those of the file.

Every fault at once, each with a JSON Pointer into the document. What a caller of the API may not do
although the file may: name references (``${env:}``, ``${file:}``) and files of this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from app.config.lint.checks import CHECKS
from app.config.lint.report import Report
from app.config.load.finding import Path
from app.config.load.loader import Loaded
from app.config.load.problems import said
from app.config.load.secrets import Unresolved, literal
from app.errors import Fault
from app.model.places import places_of
from app.model.subscription import Subscription

SECTION = "subscriptions"


class Examined(NamedTuple):
    """``subscription``: what the document says, where it keeps to the model. ``faults``: why it may not
    run; ``warnings``: what looks wrong and may be meant."""

    subscription: Subscription | None
    faults: tuple[Fault, ...] = ()
    warnings: tuple[str, ...] = ()


IsNew = Callable[[Path], bool]
"""Returns True if the setting at this path of a document is written now, rather than kept as it was."""


def examine(
    loaded: Loaded,
    documents: Sequence[Mapping[str, Any]],
    others: Sequence[Subscription],
    is_new: IsNew = lambda _: False,
) -> list[Examined]:
    """One for each document, in their order. ``others`` run beside them: a circle of mirrors is told at
    the first document that is part of it. Looks at no file and no network. ``is_new``: which settings are
    refused for what those that exist are only warned of."""
    read = [_read(document) for document in documents]
    valid = [each.subscription for each in read if each.subscription is not None]
    report = _Pointed(loaded.with_subscriptions((*valid, *others)), is_new)
    for check in CHECKS:
        check(report)
    numbers = iter(range(len(valid)))
    return [
        each if each.subscription is None else _judged(each, report, next(numbers)) for each in read
    ]


def _read(document: Mapping[str, Any]) -> Examined:
    faults: list[Fault] = []
    plain = _literal(document, (), faults)
    try:
        subscription = Subscription.model_validate(plain)
    except ValidationError as error:
        return Examined(None, (*faults, *_shape(error, plain)))
    faults += [
        _fault(
            "names-a-file",
            at,
            "names a file of the server",
            "only the configuration file may have such a setting",
        )
        for at in places_of(FilePath, subscription)
    ]
    return Examined(subscription, tuple(faults))


def _literal(value: Any, at: Path, faults: list[Fault]) -> Any:
    match value:
        case Mapping():
            return {name: _literal(inner, (*at, name), faults) for name, inner in value.items()}
        case list():
            return [_literal(inner, (*at, n), faults) for n, inner in enumerate(value)]
        case str() if "$" in value:
            try:
                return literal(value)
            except Unresolved as refusal:
                faults.append(_fault("reference", at, *refusal.args))
    return value


def _shape(error: ValidationError, document: Mapping[str, Any]) -> Iterator[Fault]:
    root = {SECTION: [document]}
    for detail in error.errors(include_url=False):
        placed = {**detail, "loc": (SECTION, 0, *detail["loc"])}
        path, message, cure = said(placed, root, set())  # type: ignore[arg-type]  # is ErrorDetails
        yield _fault("invalid-setting", path[2:], message, cure)


class _Pointed(Report):
    """Keeps paths rather than lines."""

    def __init__(self, loaded: Loaded, is_new: IsNew) -> None:
        super().__init__(loaded, looks=False)  # the answer must not tell which files are there
        self._is_new = is_new
        self.said: list[tuple[Literal["error", "warning"], Path, str, str]] = []

    def outdated(self, path: Path, message: str, cure: str) -> None:
        self._add("error" if self._is_new(path[2:]) else "warning", path, message, cure)

    def _add(self, level: Literal["error", "warning"], path: Path, message: str, cure: str) -> None:
        redacted = self.loaded.redacted
        self.said.append((level, path, redacted(message), redacted(cure)))


def _judged(each: Examined, report: _Pointed, number: int) -> Examined:
    found = [
        (level, _fault("unfit-setting", path[2:], message, cure))
        for level, path, message, cure in report.said
        if path[:2] == (SECTION, number)
    ]
    faults = [fault for level, fault in found if level == "error"]
    warnings = [fault.detail for level, fault in found if level == "warning"]
    return Examined(each.subscription, (*each.faults, *faults), tuple(warnings))


def _fault(code: str, path: Path, message: str, cure: str) -> Fault:
    setting = _dotted(path)
    detail = f"{setting}: {message}" if setting else message
    return Fault(code, f"{detail}; {cure}" if cure else detail, _pointer(path))


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))


def _pointer(path: Path) -> str:
    """RFC 6901."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
