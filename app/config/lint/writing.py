"""Checks of how routes and subscriptions write events: formats that are there and can hold what is
asked of them, settings that matter.
"""

from __future__ import annotations

from app.bindings.documents import write_document
from app.bindings.record import ContentMode, Decoded
from app.config.lint.report import Report
from app.config.load.finding import Path
from app.event.convert import as_version
from app.event.value import CloudEvent
from app.formats.typed import FormatNotInstalled, NotRepresentable
from app.model.route import FormatName, Route, SpecVersion
from app.model.subscription import Subscription

_SMALLEST = CloudEvent({"specversion": "1.0", "id": "1", "source": "/", "type": "t"})


def check_writing(report: Report) -> None:
    for n, route in enumerate(report.config.routes):
        _format(report, ("routes", n), route)
    for n, subscription in enumerate(report.config.subscriptions):
        _format(report, ("subscriptions", n), subscription)


def _format(report: Report, path: Path, writes: Route | Subscription) -> None:
    name = writes.format
    if name == "as_received":
        return
    if writes.content_mode == "binary":
        report.warning(
            (*path, "format"),
            "has no effect: in content_mode binary there is no document",
            "set content_mode: structured, or leave the format out",
        )
    elif writes.specversion != "as_received" and not _holds(name, writes.specversion):
        report.error(
            (*path, "specversion"),
            f"no event can be written: format {name} has no CloudEvents {writes.specversion}",
            'set specversion: "1.0", or format: json',
        )
    missing = _missing(name)
    if missing:
        report.error((*path, "format"), missing, "install Skybridge with the extra formats")


def _missing(name: FormatName) -> str:
    """What is not installed, in words; the library itself is asked, not a list of packages."""
    try:
        _write(name, _SMALLEST)
    except FormatNotInstalled as error:
        return str(error)
    return ""


def _holds(name: FormatName, version: SpecVersion) -> bool:
    """Whether the format has documents of that version; likewise asked. ``as_received`` is no question
    for a check: senders that all speak 1.0 need not be warned.
    """
    try:
        _write(name, as_version(_SMALLEST, version))
    except NotRepresentable:
        return False
    except FormatNotInstalled:  # which is told by itself
        return True
    return True


def _write(name: FormatName, event: CloudEvent) -> None:
    write_document(Decoded(event, ContentMode.BINARY), name)
