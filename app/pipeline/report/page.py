"""The page: a ``Report`` as one HTML document that asks the network for nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Final

from app.pipeline.report import charts, words
from app.pipeline.report.charts import Series
from app.pipeline.report.findings import findings
from app.pipeline.report.measures import OTHER, TOP
from app.pipeline.report.notes import notes
from app.pipeline.report.run import Report
from app.pipeline.report.style import CSS
from app.pipeline.report.tables import Table

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is fetched and no script runs, whatever the names of types and sources hold."""

_REST: Final = 9  # the colour of all others
_LONGEST: Final = 60  # characters of a name in a legend

_NAMED: Final = 10

Shown = Callable[[Any], str]


def page(report: Report) -> str:
    parts = (
        *(_head(report), _tiles(report), _findings(report)),
        *(_volume(report), _types(report), _delay(report), _flow(report), _invalid(report)),
        *(_sizes(report), _keys(report), _drift(report), _deliveries(report), _notes(report)),
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(_title(report))}</title>'
        f"<style>{CSS}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _title(report: Report) -> str:
    return f"Events, {words.moment(report.span.begin)} to {words.moment(report.span.end)}"


def _head(report: Report) -> str:
    span = report.span
    length = words.seconds((span.end - span.begin).total_seconds())
    places = (
        ("volume", "Volume"), ("types", "Types"), ("delay", "Delay"), ("flow", "Duplicates"),
        ("invalid", "Invalid"), ("sizes", "Sizes"), ("keys", "Keys"), ("drift", "Schemas"),
        ("deliveries", "Deliveries"), ("notes", "How it was measured"),
    )  # fmt: skip
    links = "".join(f'<a href="#{place}">{name}</a>' for place, name in places)
    return (
        "<header><h1>What happened to the events</h1>"
        f"<p>{words.moment(span.begin)} to {words.moment(span.end)} UTC, {length}.</p>"
        f'<p class="soft">Lake {escape(report.lake)}; made {words.moment(report.made)} UTC.</p></header>'
        f"<nav>{links}</nav>"
    )


def _tiles(report: Report) -> str:
    t = report.totals
    delivered = _delivered(report)
    tiles = [
        ("Events", words.number(t.events), "distinct by source and id"),
        ("Records", words.number(t.records), f"{words.size(t.size_total)} of values"),
        (
            "Duplicates",
            words.number(t.duplicates),
            f"{words.share(t.duplicates, t.records)} of records",
        ),
        ("Invalid", words.number(t.invalid), f"{words.share(t.invalid, t.records)} of records"),
        ("Arrival delay", words.seconds(t.delay_p50), f"p50; p99 {words.seconds(t.delay_p99)}"),
        ("Record size", words.size(t.size_p50), f"p50; p99 {words.size(t.size_p99)}"),
        ("Types", words.number(len(report.tables["types"].rows)), _fresh(report)),
        ("Delivered", delivered, "of events with attempts" if report.successes else "not known"),
    ]
    items = "".join(
        f"<div><dt>{name}</dt><dd>{escape(value)}<small>{escape(more)}</small></dd></div>"
        for name, value, more in tiles
    )
    return f'<dl class="tiles">{items}</dl>'


def _fresh(report: Report) -> str:
    return "" if report.fresh is None else f"{len(report.fresh)} never seen before"


def _delivered(report: Report) -> str:
    table = report.tables["deliveries"]
    if not report.successes:
        return words.NONE
    return words.share(sum(table.column("delivered")), sum(table.column("events")))


def _findings(report: Report) -> str:
    found = findings(report)
    if not found:
        return '<p class="findings">Nothing stands out.</p>'
    items = "".join(
        f'<li class="{"grave" if each.grave else "plain"}">{escape(each.text)}'
        f' <a href="#{each.place}">figures</a></li>'
        for each in found
    )
    return f'<ul class="findings" aria-label="Worth a look">{items}</ul>'


def _volume(report: Report) -> str:
    step = report.span.step
    begins = report.span.bins()
    label = f"events per {words.seconds(step.total_seconds())}"
    drawn = "".join(
        f"<h3>By {name}</h3>"
        + charts.stacked(
            begins, step, _series(report.tables[f"volume_by_{name}"], begins, name), label=label
        )
        for name in ("type", "source")
    )
    return _section(
        "volume", "Volume", "Distinct events by the time that the broker stored them.", drawn
    )


def _series(table: Table, begins: Sequence[Any], column: str) -> list[Series]:
    """The most frequent first, so that it stands at the bottom."""
    by_name: dict[str, dict[Any, int]] = {}
    for row in table.dicts():
        by_name.setdefault(row[column], {})[row["begin"]] = row["events"]
    names = sorted(by_name, key=lambda name: (name == OTHER, -sum(by_name[name].values()), name))
    return [
        Series(
            _short(name),
            [by_name[name].get(begin, 0) for begin in begins],
            _REST if name == OTHER else at,
        )
        for at, name in enumerate(names)
    ]


def _types(report: Report) -> str:
    table, fresh = report.tables["types"], set(report.fresh or ())
    top = charts.bars([_bar(row, "type", report.totals.events) for row in table.dicts()[:10]])
    sources = charts.bars(
        [_bar(row, "source", report.totals.events) for row in report.tables["sources"].dicts()[:10]]
    )
    drawn = f'<div class="pair"><div><h3>Types</h3>{top}</div><div><h3>Sources</h3>{sources}</div></div>'
    said = (
        "The lake has nothing before this range: which types are new cannot be told."
        if report.fresh is None
        else f"Never seen before this range: {_listed(report.fresh)}."
    )
    return _section(
        "types", "Types and sources", said, drawn,
        _table("All types, with delay and size of data", table, mark=lambda row: row["type"] in fresh),
        _table(f"The {TOP} sources with most events", report.tables["sources"]),
    )  # fmt: skip


def _listed(names: Sequence[str]) -> str:
    """The table has them all."""
    named = ", ".join(_short(name) for name in names[:_NAMED]) or "none"
    return named if len(names) <= _NAMED else f"{named} and {len(names) - _NAMED} more"


def _bar(row: dict[str, Any], name: str, whole: int) -> tuple[str, float, str]:
    told = f"{words.number(row['events'])} · {words.share(row['events'], whole)}"
    return _short(row[name]), row["events"], told


def _delay(report: Report) -> str:
    begins, table = report.span.bins(), report.tables["arrivals"]
    by_bin = {row["begin"]: row for row in table.dicts()}
    series = [
        Series(name, [by_bin.get(begin, {}).get(column) for begin in begins], colour)
        for name, column, colour in (("p50", "delay_p50", 0), ("p99", "delay_p99", 1))
    ]
    drawn = charts.lines(
        begins, report.span.step, series, label="delay, logarithmic", texts=words.seconds
    )
    said = "From the time that the producer gave the event to the time that the broker stored it."
    if report.totals.untimed:
        said += f" {words.count(report.totals.untimed, 'event has', 'events have')} no time and no delay."
    return _section("delay", "Arrival delay", said, drawn, _table("By time", table))


def _flow(report: Report) -> str:
    t, begins = report.totals, report.span.bins()
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
    step = report.span.step
    drawn = charts.stacked(
        begins, step, series, label=f"records per {words.seconds(step.total_seconds())}"
    )
    said = (
        f"{words.count(t.records, 'record')}: {words.count(t.events, 'event')}, {words.count(t.duplicates, 'duplicate')},"
        f" {words.number(t.invalid)} invalid. A duplicate is a record whose event, by source and id, was there before."
    )
    by_topic = Table(
        ("broker", "topic", "records", "events", "duplicates", "invalid"),
        [(*key, *sums) for key, sums in sorted(topics.items())],
    )
    return _section(
        "flow", "Duplicates and invalid records", said, drawn, _table("By topic", by_topic)
    )


def _invalid(report: Report) -> str:
    table = report.tables["invalid"]
    if not table.rows:
        return _section("invalid", "Invalid by rule", "Every record decoded.", "")
    t = report.totals
    drawn = charts.bars(
        [
            (f"{row['rule']} ({row['verdict']})", row["records"],
             f"{words.number(row['records'])} · {words.share(row['records'], t.invalid)}")
            for row in table.dicts()[:15]
        ]
    )  # fmt: skip
    said = (
        "By the first rule that a record broke. The records are in the table quarantine, with every fault; an"
        " example is topic/partition/offset."
    )
    return _section("invalid", "Invalid by rule", said, drawn, _table("Rules and examples", table))


def _sizes(report: Report) -> str:
    t, table = report.totals, report.tables["sizes"]
    rows = table.dicts()
    used = [at for at, row in enumerate(rows) if row["records"]] or [0]
    shown = rows[max(0, used[0] - 1) : used[-1] + 2]
    drawn = charts.histogram(
        [words.size(row["at_least"]) for row in shown], [row["records"] for row in shown],
        label="records", below="size of the value, from",
    )  # fmt: skip
    said = (
        f"Values of records as on the wire: p50 {words.size(t.size_p50)}, p99 {words.size(t.size_p99)}, the"
        f" largest {words.size(t.size_most)}. Headers and keys are not in it."
    )
    return _section("sizes", "Sizes", said, drawn, _table("Histogram", table))


def _keys(report: Report) -> str:
    t = report.totals
    top = [
        ("no key" if row["key"] is None else _short(row["key"]), row["records"],
         f"{words.number(row['records'])} · {words.share(row['records'], t.records)}")
        for row in report.tables["keys"].dicts()[:10]
    ]  # fmt: skip
    parts = [
        (f"{row['topic']} {row['partition']}", row["records"], words.number(row["records"]))
        for row in report.tables["partitions"].dicts()
    ]
    drawn = (
        f'<div class="pair"><div><h3>Keys with most records</h3>{charts.bars(top)}</div>'
        f"<div><h3>Partitions</h3>{charts.bars(sorted(parts, key=lambda part: -part[1])[:10])}</div></div>"
    )
    average = t.records / t.keys if t.keys else 0
    said = (
        f"{words.count(t.keys, 'key')}, {words.short(average)} records each on average. A key is delivered in order:"
        " one that has many records is a bound on speed."
    )
    return _section(
        "keys", "Key skew", said, drawn,
        _table(f"The {TOP} keys with most records", report.tables["keys"]),
        _table("Partitions", report.tables["partitions"]),
    )  # fmt: skip


def _drift(report: Report) -> str:
    table = report.tables["drift"]
    against = (
        "an earlier report"
        if report.against
        else f"the time before {words.moment(report.span.middle)}"
    )
    since = "This range" if report.against else "The second half of the range"
    said = f"{since} against {against}, by samples of the data of each type."
    if not table.rows:
        return _section("drift", "Schemas of data", f"{said} No change was found.", "")
    return _section("drift", "Schemas of data", said, _wide(table, None))


def _deliveries(report: Report) -> str:
    table = report.tables["deliveries"]
    if report.successes is None:
        said = "No store was read: what became of the events outside of the lake is not known here."
        return _section("deliveries", "Deliveries", said, "")
    said = "Events of this range, by the attempts that the store has now."
    if not report.successes:
        said += (
            " It keeps those that failed, and few others (store.attempts.keep: failures): a share of success"
            " cannot be told, and the table lists events with trouble only."
        )
    if not table.rows:
        return _section("deliveries", "Deliveries", f"{said} It has none.", "")
    bars = ""
    if report.successes:
        bars = charts.bars(
            [
                (f"{row['subscription']}: {_short(row['type'])}", row["delivered"] / row["events"],
                 f"{words.share(row['delivered'], row['events'])} of {words.number(row['events'])}")
                for row in table.dicts()[:20]
            ]
        )  # fmt: skip
    return _section(
        "deliveries", "Deliveries", said, bars, _table("By subscription and type", table)
    )


def _notes(report: Report) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes(report))
    return f'<footer id="notes"><h2>How it was measured</h2><ul class="soft">{items}</ul></footer>'


def _section(place: str, title: str, said: str, *parts: str) -> str:
    return (
        f'<section id="{place}"><h2>{escape(title)}</h2><p class="soft">{escape(said)}</p>'
        f"{''.join(parts)}</section>"
    )


def _table(title: str, table: Table, mark: Callable[[dict[str, Any]], bool] | None = None) -> str:
    """Folded away until somebody asks."""
    if not table.rows:
        return ""
    return f"<details><summary>{escape(title)}</summary>{_wide(table, mark)}</details>"


def _wide(table: Table, mark: Callable[[dict[str, Any]], bool] | None) -> str:
    """It scrolls within itself: the page does not."""
    head = "".join(
        f"<th{_class(name)}>{escape(name.replace('_', ' '))}</th>" for name in table.columns
    )
    rows = []
    for row in table.dicts():
        cells = [
            f"<td{_class(name)}>{escape(_shown(name)(value))}</td>" for name, value in row.items()
        ]
        if mark is not None and mark(row):
            cells[0] = cells[0].replace("</td>", '<span class="new">new</span></td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


_TEXTS: Final = frozenset(
    {"type", "source", "broker", "topic", "key", "verdict", "rule", "detail", "example", "path", "change",
     "before", "after", "subscription"}
)  # fmt: skip


def _class(name: str) -> str:
    if name in {"type", "source", "detail", "path", "key"}:
        return ' class="t"'
    return "" if name in _TEXTS else ' class="n"'


def _shown(name: str) -> Shown:
    if name in _TEXTS:
        return lambda value: words.NONE if value is None else str(value)
    if name in {"begin", "first", "last"}:
        return words.moment
    if name.startswith(("delay", "latency")):
        return words.seconds
    if name.startswith("size") or name in {"at_least", "below"}:
        return words.size
    return words.number


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
