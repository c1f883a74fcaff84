"""The findings of a report: sentences on what deserves attention, so that readers need not search
the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from app.pipeline.report.run import LakeReport
from app.pipeline.report.words import count, share

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
    grave: bool


def findings(report: LakeReport) -> list[ReportFinding]:
    """Return the findings of a report, the grave ones first."""
    grave = [ReportFinding(*each, grave=True) for each in _grave(report)]
    return grave + [ReportFinding(*each, grave=False) for each in _worth_a_look(report)]


def _grave(report: LakeReport) -> Iterator[tuple[str, str]]:
    totals = report.totals
    if totals.invalid:
        part = f"{count(totals.invalid, 'record')} ({share(totals.invalid, totals.records)})"
        worst = report.tables["invalid"].dicts()[0]["rule"]
        yield f"{part} did not decode, most often for {worst}.", "invalid"
    if lost := sum(report.tables["deliveries"].column("given_up")):
        yield f"{count(lost, 'delivery was', 'deliveries were')} given up.", "deliveries"
    if changed := sorted(set(report.tables["drift"].column("type"))):
        yield f"The data of {_some(changed)} changed its shape.", "drift"


def _worth_a_look(report: LakeReport) -> Iterator[tuple[str, str]]:
    totals = report.totals
    if totals.duplicates:
        what = count(totals.duplicates, "record repeats", "records repeat")
        part = share(totals.duplicates, totals.records)
        yield f"{what} an event that was there already ({part}).", "flow"
    if report.fresh:
        types = count(len(report.fresh), "type was", "types were")
        yield f"{types} never seen before: {_some(report.fresh)}.", "types"
    if (hot := _hot_key(report)) is not None:
        times = hot["records"] * totals.keys / totals.records
        part = share(hot["records"], totals.records)
        yield (
            f"One key has {part} of all records, {times:.0f} times the average: {hot['key']}.",
            "keys",
        )
    if totals.ahead:
        what = count(totals.ahead, "event has", "events have")
        yield f"{what} a time later than the broker's: their producers' clocks are ahead.", "delay"
    if report.far:
        what = count(report.far, "record has", "records have")
        yield (
            (
                f"{what} a time in the year 9999 or later; the charts leave them out. A producer may send"
                " microseconds as milliseconds."
            ),
            "volume",
        )
    if totals.waiting:
        what = count(totals.waiting, "record waits", "records wait")
        yield (
            f"{what} to be decoded: the archive is late, and this page does not count them.",
            "flow",
        )


def _hot_key(report: LakeReport) -> dict[str, Any] | None:
    """Return the key with the most records if it is hot. Events of a key are delivered in order, so
    such a key limits the speed."""
    totals = report.totals
    keyed = [row for row in report.tables["keys"].dicts() if row["key"] is not None]
    if not keyed or totals.keys < 2:  # noqa: PLR2004
        return None
    records = keyed[0]["records"]
    hot = records >= HOT * totals.records and records * totals.keys >= TIMES * totals.records
    return keyed[0] if hot else None


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" and others" if len(names) > _NAMED else "")
