"""Checks of the format of routes and subscriptions: the format is installed, it supports the
version, and it has an effect.
"""

from __future__ import annotations

from app.bindings.documents import write_document
from app.bindings.record import ContentMode, Decoded
from app.config.lint.report import LintReport
from app.config.load.finding import Path
from app.event.convert import as_version
from app.event.value import CloudEvent
from app.formats.typed import FormatNotInstalled, NotRepresentable
from app.model.route import FormatName, Route, SpecVersion
from app.model.subscription import Subscription

_SMALLEST = CloudEvent({"specversion": "1.0", "id": "1", "source": "/", "type": "t"})


def check_writing(report: LintReport) -> None:
    for n, route in enumerate(report.config.routes):
        _format(report, ("routes", n), route)
    for n, subscription in enumerate(report.config.subscriptions):
        _format(report, ("subscriptions", n), subscription)


def _format(report: LintReport, path: Path, writes: Route | Subscription) -> None:
    name = writes.format
    if name == "as_received":
        return
    if writes.content_mode == "binary":
        report.warning(
            (*path, "format"),
            "The setting format has no effect, because content_mode: binary writes no event as a document.",
            "Set content_mode: structured, or remove the format.",
        )
    elif writes.specversion != "as_received" and not _holds(name, writes.specversion):
        report.error(
            (*path, "specversion"),
            f"The format {name} does not support CloudEvents {writes.specversion}.",
            'Set specversion: "1.0", or format: json.',
        )
    missing = _missing(name)
    if missing:
        report.error(
            (*path, "format"),
            missing,
            "Install Skybridge with its optional dependency group formats.",
        )


def _missing(name: FormatName) -> str:
    """Return a message if the format is not installed, or empty text. The function tries to write
    an event in this format.
    """
    try:
        _write(name, _SMALLEST)
    except FormatNotInstalled as error:
        return str(error)
    return ""


def _holds(name: FormatName, version: SpecVersion) -> bool:
    """Return True if events of this CloudEvents version can be written in the format. The function
    tries to write one.

    ``as_received`` is not checked, because senders that all use 1.0 need no warning.
    """
    try:
        _write(name, as_version(_SMALLEST, version))
    except NotRepresentable:
        return False
    except FormatNotInstalled:  # _missing reports it
        return True
    return True


def _write(name: FormatName, event: CloudEvent) -> None:
    write_document(Decoded(event, ContentMode.BINARY), name)
