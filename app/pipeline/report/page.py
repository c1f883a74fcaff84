"""The page of a report: one HTML document that loads nothing from the network. Pure.

``page.html`` has the texts and the elements, ``page.css`` the colours and the layout. The page is
light or dark as the reader's system is set, and has one column on a phone. This module prepares the
charts and bars for the template.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from importlib.resources import files
from typing import Any, Final

from mako.template import Template

from app.pipeline.report import charts, words
from app.pipeline.report.charts import Chart, Series
from app.pipeline.report.findings import findings
from app.pipeline.report.measures import OTHER
from app.pipeline.report.run import LakeReport
from app.pipeline.report.tables import Table

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""The content security policy: nothing is loaded and no script runs, even if a type or source
contains HTML.
"""

Bar = tuple[str, float, str]
"""A name, a value and its text."""

_LONGEST: Final = 60  # characters of a name in a legend
_NAMED: Final = 10
_TEXTS: Final = frozenset(
    {"type", "source", "broker", "topic", "key", "verdict", "rule", "detail", "example", "path", "change",
     "before", "after", "subscription"}
)  # fmt: skip


def page(report: LakeReport) -> str:
    text: str = template().render(
        report=report,
        span=report.span,
        t=report.totals,
        tables=report.tables,
        found=findings(report),
        policy=POLICY,
        style=_file("page.css"),
    )
    return text


def template() -> Template:
    """Return the template of the page. It escapes all inserted values with the filter ``h``."""
    return Template(_file("page.html"), default_filters=["h"], strict_undefined=True)  # noqa: S702 - the default filter escapes


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def volume(report: LakeReport, column: str) -> Chart:
    """Return the chart of events over time by type or source, with the most frequent at the bottom."""
    begins, step = report.span.bins(), report.span.step
    by_name: dict[str, dict[Any, int]] = {}
    for row in report.tables[f"volume_by_{column}"].dicts():
        by_name.setdefault(row[column], {})[row["begin"]] = row["events"]
    names = sorted(by_name, key=lambda name: (name == OTHER, -sum(by_name[name].values()), name))
    series = [
        Series(
            _short(name),
            [by_name[name].get(begin, 0) for begin in begins],
            charts.REST if name == OTHER else at,
        )
        for at, name in enumerate(names)
    ]
    return charts.stacked(begins, step, series, label=_per(step, "events"))


def delay(report: LakeReport) -> Chart:
    begins = report.span.bins()
    by_bin = {row["begin"]: row for row in report.tables["arrivals"].dicts()}
    series = [
        Series(name, [by_bin.get(begin, {}).get(column) for begin in begins], colour)
        for name, column, colour in (("p50", "delay_p50", 0), ("p99", "delay_p99", 1))
    ]
    return charts.lines(
        begins, report.span.step, series, label="delay, logarithmic", texts=words.seconds
    )


def flow(report: LakeReport) -> tuple[Chart, Table]:
    """Return the chart of duplicates and invalid records over time, and a table of all counts by
    topic.
    """
    begins, step = report.span.bins(), report.span.step
    by_bin: dict[Any, list[int]] = {}
    topics: dict[tuple[str, str], list[int]] = {}
    for row in report.tables["flow"].dicts():
        for sums, key in ((by_bin, row["begin"]), (topics, (row["broker"], row["topic"]))):
            into = sums.setdefault(key, [0, 0, 0, 0])
            for at, name in enumerate(("records", "events", "duplicates", "invalid")):
                into[at] += row[name]
    series = [
        Series(name, [max(0, by_bin.get(begin, [0, 0, 0, 0])[at]) for begin in begins], colour)
        for name, at, colour in (("duplicates", 2, 1), ("invalid", 3, 3))
    ]
    by_topic = Table(
        ("broker", "topic", "records", "events", "duplicates", "invalid"),
        [(*key, *sums) for key, sums in sorted(topics.items())],
    )
    return charts.stacked(begins, step, series, label=_per(step, "records")), by_topic


def sizes(report: LakeReport) -> Chart:
    """Return the histogram of sizes, from one bar before the first with records to one after the
    last.
    """
    rows = report.tables["sizes"].dicts()
    used = [at for at, row in enumerate(rows) if row["records"]] or [0]
    shown = rows[max(0, used[0] - 1) : used[-1] + 2]
    return charts.histogram(
        [words.size(row["at_least"]) for row in shown], [row["records"] for row in shown],
        label="records", below="size of the value, from",
    )  # fmt: skip


def shares(table: Table, name: str, count: str, whole: int) -> list[Bar]:
    """Return bars for the first ten rows of a table."""
    return [
        _bar("no key" if row[name] is None else _short(row[name]), row[count], whole)
        for row in table.dicts()[:10]
    ]


def rules(report: LakeReport) -> list[Bar]:
    return [
        _bar(f"{row['rule']} ({row['verdict']})", row["records"], report.totals.invalid)
        for row in report.tables["invalid"].dicts()[:15]
    ]


def partitions(report: LakeReport) -> list[Bar]:
    """Return bars for the ten partitions with the most records."""
    rows = sorted(report.tables["partitions"].dicts(), key=lambda row: -row["records"])[:10]
    return [
        (f"{row['topic']} {row['partition']}", row["records"], words.number(row["records"]))
        for row in rows
    ]


def deliveries(report: LakeReport) -> list[Bar]:
    return [
        (f"{row['subscription']}: {_short(row['type'])}", row["delivered"] / row["events"],
         f"{words.share(row['delivered'], row['events'])} of {words.number(row['events'])}")
        for row in report.tables["deliveries"].dicts()[:20]
    ]  # fmt: skip


def listed(names: Sequence[str]) -> str:
    """Return the first names as a list in words. The table has all names."""
    named = ", ".join(_short(name) for name in names[:_NAMED]) or "none"
    return named if len(names) <= _NAMED else f"{named} and {len(names) - _NAMED} more"


def kind(name: str) -> str:
    """Return the CSS class of a column: ``t`` for long texts, ``n`` for numbers."""
    if name in {"type", "source", "detail", "path", "key"}:
        return "t"
    return "" if name in _TEXTS else "n"


def cell(name: str, value: Any) -> str:
    if name in _TEXTS:
        return words.NONE if value is None else str(value)
    if name in {"begin", "first", "last"}:
        return words.moment(value)
    if name.startswith(("delay", "latency")):
        return words.seconds(value)
    if name.startswith("size") or name in {"at_least", "below"}:
        return words.size(value)
    return words.number(value)


def _bar(name: str, count: int, whole: int) -> Bar:
    return name, count, f"{words.number(count)} · {words.share(count, whole)}"


def _per(step: timedelta, what: str) -> str:
    return f"{what} per {words.seconds(step.total_seconds())}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
