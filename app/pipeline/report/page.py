"""The page of a report: one HTML document that loads nothing from the network. Pure.

``page.html`` has the texts and the elements, ``page.css`` the colours and the layout. The page is
light or dark as the reader's system is set, and has one column on a phone. This module prepares the
charts and bars for the template.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

from mako.template import Template

from app.pipeline.report import charts, words
from app.pipeline.report.charts import Chart, Series
from app.pipeline.report.findings import findings
from app.pipeline.report.measures import OTHER
from app.pipeline.report.run import COUNTS, LakeReport
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
    by_name: dict[str, dict[Any, int]] = {}
    for row in report.tables[f"volume_by_{column}"].dicts():
        by_name.setdefault(row[column], {})[row["begin"]] = row["events"]
    names = sorted(by_name, key=lambda name: (name == OTHER, -sum(by_name[name].values()), name))
    series = [
        _series(report, _short(name), by_name[name], charts.REST if name == OTHER else at)
        for at, name in enumerate(names)
    ]
    return charts.stacked(report.span, series, label=_per(report, "events"))


def delay(report: LakeReport) -> Chart:
    rows = report.tables["arrivals"].dicts()
    low, high = (
        _series(report, name, {row["begin"]: row[f"delay_{name}"] for row in rows}, 0)
        for name in ("p50", "p99")
    )
    return charts.spread(report.span, low, high, label="delay, logarithmic")


def flow(report: LakeReport) -> tuple[Chart, Table]:
    """Return the chart of duplicates and invalid records over time, and a table of all counts by
    topic.
    """
    by_bin = defaultdict[Any, Counter[str]](Counter)
    topics = defaultdict[Any, Counter[str]](Counter)
    for row in report.tables["flow"].dicts():
        for sums in (by_bin[row["begin"]], topics[row["broker"], row["topic"]]):
            sums.update({name: row[name] for name in COUNTS})
    series = [
        _series(report, name, {at: max(0, sums[name]) for at, sums in by_bin.items()}, colour)
        for name, colour in (("duplicates", 1), ("invalid", 3))
    ]
    by_topic = [(*key, *(sums[name] for name in COUNTS)) for key, sums in sorted(topics.items())]
    chart = charts.stacked(report.span, series, label=_per(report, "records"))
    return chart, Table(("broker", "topic", *COUNTS), by_topic)


def sizes(report: LakeReport) -> list[Bar]:
    """Return bars for the sizes, from the first with records to the last."""
    rows = report.tables["sizes"].dicts()
    used = [at for at, row in enumerate(rows) if row["records"]] or [0]
    shown = rows[used[0] : used[-1] + 1]
    return [
        _bar(f"from {words.size(row['at_least'])}", row["records"], report.totals.records)
        for row in shown
    ]


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


def percent(share: float) -> str:
    """Return a share as a length of CSS."""
    return f"{100 * share:.2f}%"


def _bar(name: str, count: int, whole: int) -> Bar:
    return name, count, f"{words.number(count)} · {words.share(count, whole)}"


def _series(report: LakeReport, name: str, values: Mapping[Any, float], colour: int) -> Series:
    """Return a series with a value for each bin of the report."""
    return Series(name, [values.get(begin) for begin in report.span.bins()], colour)


def _per(report: LakeReport, what: str) -> str:
    return f"{what} per {words.seconds(report.span.step.total_seconds())}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
