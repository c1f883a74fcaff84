"""Check subscriptions that callers of the API send. The model and the checks are the same as for
subscriptions of the configuration file.

Every fault is reported at once, with a JSON Pointer into the document. A caller of the API may not
use references (``${env:…}``, ``${file:…}``) or name files of this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from app.config.lint.checks import CHECKS
from app.config.lint.report import LintReport
from app.config.load.finding import Path, cure_sentence, problem_sentence
from app.config.load.loader import Loaded
from app.config.load.problems import describe_error
from app.config.load.secrets import Unresolved, without_references
from app.config.model.brokers import RabbitBroker
from app.errors import Fault
from app.model.places import paths_of
from app.model.route import Exchange, Target
from app.model.subscription import IGNORE, Subscription

SECTION = "subscriptions"


class Examined(NamedTuple):
    """The result of checking one document.

    ``subscription`` is None if the document does not fit the model. ``faults`` prevent the
    subscription from running, and ``warnings`` do not.
    """

    subscription: Subscription | None
    faults: tuple[Fault, ...] = ()
    warnings: tuple[str, ...] = ()


IsNew = Callable[[Path], bool]
"""A function that returns True if a change adds the setting at this path to a document."""


def examine(
    loaded: Loaded,
    documents: Sequence[Mapping[str, Any]],
    others: Sequence[Subscription],
    is_new: IsNew = lambda _: False,
) -> list[Examined]:
    """Check the documents and return a result for each, in the same order.

    Args:
        loaded: The configuration of the running service.
        documents: The subscriptions as JSON documents.
        others: The subscriptions that run already. A loop of mirrors is reported at the first document in it. Only
            those matter that ``affects_others`` names.
        is_new: Which settings are new. Some values are an error in a new setting and a warning in an old one.

    No file is read and no network is used.
    """
    read = [read_document(document) for document in documents]
    valid = [each.subscription for each in read if each.subscription is not None]
    connected = [each for each in others if affects_others(loaded, each)]
    report = _PathReport(loaded.with_subscriptions((*valid, *connected)), is_new)
    for check in CHECKS:
        check(report)
    numbers = iter(range(len(valid)))
    return [
        each if each.subscription is None else _judged(each, report, next(numbers)) for each in read
    ]


def affects_others(loaded: Loaded, subscription: Subscription) -> bool:
    """Return True if the checks of other subscriptions depend on this one: it publishes events, or its queues on
    RabbitMQ may be those of others."""
    publishes = isinstance(subscription.sink, Target | Exchange) or subscription.reply != IGNORE
    broker = loaded.config.brokers.get(subscription.source.broker)
    return publishes or broker is None or isinstance(broker, RabbitBroker)


def read_document(document: Mapping[str, Any]) -> Examined:
    """Return the subscription of a document, or its faults of form. The rest of the configuration is not checked."""
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
            "The setting names a file of the server. Only the configuration file may name such files.",
            "Remove the setting.",
        )
        for at in paths_of(FilePath, subscription)
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
                return without_references(value)
            except Unresolved as refusal:
                faults.append(_fault("reference", at, *refusal.args))
    return value


def _shape(error: ValidationError, document: Mapping[str, Any]) -> Iterator[Fault]:
    root = {SECTION: [document]}
    for detail in error.errors(include_url=False):
        placed = {**detail, "loc": (SECTION, 0, *detail["loc"])}
        path, message, cure = describe_error(placed, root, set())  # type: ignore[arg-type]  # is ErrorDetails
        yield _fault("invalid-setting", path[2:], message, cure)


class _PathReport(LintReport):
    """A report that keeps the paths of findings instead of line numbers."""

    def __init__(self, loaded: Loaded, is_new: IsNew) -> None:
        super().__init__(
            loaded, may_read_files=False
        )  # the answer must not reveal which files exist
        self._is_new = is_new
        self.said: list[tuple[Literal["error", "warning"], Path, str, str]] = []

    def outdated(self, path: Path, message: str, cure: str) -> None:
        self._add("error" if self._is_new(path[2:]) else "warning", path, message, cure)

    def _add(self, level: Literal["error", "warning"], path: Path, message: str, cure: str) -> None:
        redacted = self.loaded.redacted
        self.said.append((level, path, redacted(message), redacted(cure)))


def _judged(each: Examined, report: _PathReport, number: int) -> Examined:
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
    message, cure = problem_sentence(message), cure_sentence(cure)
    detail = f"{setting}: {message}" if setting else message
    return Fault(code, f"{detail} {cure}" if cure else detail, _pointer(path))


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))


def _pointer(path: Path) -> str:
    """Return the path as a JSON Pointer (RFC 6901)."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
