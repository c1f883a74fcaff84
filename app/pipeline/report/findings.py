"""The findings of a report: sentences on what deserves attention, so that readers need not search
the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from app.pipeline.report import words
from app.pipeline.report.run import LakeReport

HOT: Final = 0.1  # share of all records from which a key is hot
TIMES: Final = 10  # least multiple of an average key's records
_NAMED: Final = 3


class ReportFinding(msgspec.Struct, frozen=True):
    """A sentence on something that deserves attention.

    Attributes:
        text: The sentence.
        place: The section of the page with the figures.
        grave: Whether something is wrong, not only new.
    """

    text: str
    place: str
    grave: bool = False


def findings(report: LakeReport) -> list[ReportFinding]:
    """Return the findings of a report, the grave ones first."""
    found = [
        *_invalid(report),
        *_given_up(report),
        *_duplicates(report),
        *_drift(report),
        *_fresh(report),
        *_keys(report),
        *_clocks(report),
        *_far(report),
        *_waiting(report),
    ]
    return sorted(found, key=lambda each: not each.grave)


def _invalid(report: LakeReport) -> Iterator[ReportFinding]:
    totals, table = report.totals, report.tables["invalid"]
    if totals.invalid:
        worst = table.dicts()[0]
        yield ReportFinding(
            f"{words.count(totals.invalid, 'record')} ({words.share(totals.invalid, totals.records)}) did not"
            f" decode, most often for {worst['rule']}.",
            "invalid",
            grave=True,
        )


def _given_up(report: LakeReport) -> Iterator[ReportFinding]:
    lost = sum(report.tables["deliveries"].column("given_up"))
    if lost:
        yield ReportFinding(
            f"{words.count(lost, 'delivery was', 'deliveries were')} given up.",
            "deliveries",
            grave=True,
        )


def _duplicates(report: LakeReport) -> Iterator[ReportFinding]:
    totals = report.totals
    if totals.duplicates:
        yield ReportFinding(
            f"{words.count(totals.duplicates, 'record repeats', 'records repeat')} an event that was there"
            f" already ({words.share(totals.duplicates, totals.records)}).",
            "flow",
        )


def _drift(report: LakeReport) -> Iterator[ReportFinding]:
    changed = report.tables["drift"].column("type")
    if changed:
        types = sorted(set(changed))
        yield ReportFinding(f"The data of {_some(types)} changed its shape.", "drift", grave=True)


def _fresh(report: LakeReport) -> Iterator[ReportFinding]:
    if report.fresh:
        types = words.count(len(report.fresh), "type was", "types were")
        yield ReportFinding(f"{types} never seen before: {_some(report.fresh)}.", "types")


def _keys(report: LakeReport) -> Iterator[ReportFinding]:
    """Yield a finding if one key has many records. Events of a key are delivered in order, so such
    a key limits the speed."""
    totals = report.totals
    keyed = [row for row in report.tables["keys"].dicts() if row["key"] is not None]
    if not keyed or totals.keys < 2:  # noqa: PLR2004
        return
    hottest = keyed[0]
    times = hottest["records"] * totals.keys / max(1, totals.records)
    if hottest["records"] >= HOT * totals.records and times >= TIMES:
        yield ReportFinding(
            f"One key has {words.share(hottest['records'], totals.records)} of all records,"
            f" {times:.0f} times the average: {hottest['key']}.",
            "keys",
        )


def _clocks(report: LakeReport) -> Iterator[ReportFinding]:
    totals = report.totals
    if totals.ahead:
        yield ReportFinding(
            f"{words.count(totals.ahead, 'event has', 'events have')} a time later than the broker's: their"
            " producers' clocks are ahead.",
            "delay",
        )


def _far(report: LakeReport) -> Iterator[ReportFinding]:
    if report.far:
        yield ReportFinding(
            f"{words.count(report.far, 'record has', 'records have')} a time in the year 9999 or later; the"
            " charts leave them out. A producer may send microseconds as milliseconds.",
            "volume",
        )


def _waiting(report: LakeReport) -> Iterator[ReportFinding]:
    if report.totals.waiting:
        yield ReportFinding(
            f"{words.count(report.totals.waiting, 'record waits', 'records wait')} to be decoded: the"
            " archive is late, and this page does not count them.",
            "flow",
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" and others" if len(names) > _NAMED else "")
