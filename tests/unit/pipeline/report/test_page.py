"""The page of a report: it says what the tables say, asks the network for nothing, and fits a phone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

import chromium
from app.pipeline.report import charts, tables
from app.pipeline.report.charts import Series
from app.pipeline.report.findings import findings
from app.pipeline.report.page import POLICY, page, template
from app.pipeline.report.run import LakeReport
from app.pipeline.report.spans import Span
from kafka_install import Missing
from sample_report import HOSTILE, report_made
from skipping import skip_or_fail

_VOID = {"meta", "link", "img", "br", "hr", "input"}
_FETCHING = {
    "script",
    "link",
    "img",
    "iframe",
    "object",
    "embed",
    "audio",
    "video",
    "source",
    "base",
    "use",
}


class Outline(HTMLParser):
    """Which elements and attributes there are, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def report() -> LakeReport:
    return report_made()


def empty(report: LakeReport) -> LakeReport:
    """Of a lake with one record that is no event: most tables have nothing."""
    bare = {name: tables.Table(table.columns) for name, table in report.tables.items()}
    totals = msgspec.structs.replace(
        report.totals, records=1, events=0, duplicates=0, invalid=0, waiting=0, keys=0, untimed=0, ahead=0,
        delay_p50=None, delay_p99=None, size_p50=None, size_p99=None, size_most=None, size_total=0,
    )  # fmt: skip
    return msgspec.structs.replace(report, tables=bare, totals=totals, fresh=None, successes=None)


def test_nothing_on_the_page_asks_the_network(report: LakeReport) -> None:
    """One file that can be mailed: no element that fetches, no address but places of the page itself."""
    outline = Outline(page(report))
    assert not _FETCHING & set(outline.tags)
    for name, value in outline.attributes:
        assert not name.startswith("on")
        if name in {"href", "src", "srcset", "xlink:href", "action"}:
            assert value.startswith("#")
        if name == "style":
            assert "url(" not in value
    style = re.search(r"<style>(.*?)</style>", page(report), re.DOTALL)
    assert style
    assert not re.search(r"url\(|@import|https?:", style[1])
    assert ("content", POLICY) in outline.attributes


def test_names_from_outside_are_text_and_nothing_else(report: LakeReport) -> None:
    """Whoever may send events chooses types, sources and keys."""
    outline = Outline(page(report))
    assert outline.open == []
    assert HOSTILE in outline.text
    assert HOSTILE not in page(report)


def test_texts_of_charts_are_escaped() -> None:
    begin = datetime(2026, 11, 20, tzinfo=UTC)
    chart = charts.stacked(
        Span(begin, begin + timedelta(1)), [Series("<u>", [3] * 48, 0)], label="<s>"
    )
    drawn = template().get_def("chart").render(one=chart)
    drawn += template().get_def("bars").render(rows=[("<b>", 1, "<i>")])
    assert not re.search("<[bisu]>", drawn)
    for text in ("<u>", "<s>", "<b>", "<i>"):
        assert escape(text) in drawn


def test_links_lead_to_places_that_there_are(report: LakeReport) -> None:
    outline = Outline(page(report))
    places = {value for name, value in outline.attributes if name == "id"}
    assert {value[1:] for name, value in outline.attributes if name == "href"} <= places


def test_the_headline_numbers_are_those_of_the_report(report: LakeReport) -> None:
    text = Outline(page(report)).text
    for value in (report.totals.events, report.totals.records, report.totals.duplicates):
        assert f"{value:,}" in text


def test_a_page_about_next_to_nothing_is_whole(report: LakeReport) -> None:
    outline = Outline(page(empty(report)))
    assert outline.open == []
    assert "Nothing stands out." in outline.text


def test_what_is_wrong_comes_first_among_the_findings(report: LakeReport) -> None:
    found = findings(report)
    assert [each.grave for each in found] == sorted((each.grave for each in found), reverse=True)
    said = " ".join(each.text for each in found)
    for part in (
        "did not decode",
        "given up",
        "repeat",
        "changed its shape",
        "never seen",
        "One key",
        "wait",
    ):
        assert part in said


def test_a_share_of_success_is_not_made_up_where_only_failures_are_kept(report: LakeReport) -> None:
    """store.attempts.keep: failures has no row for most successes: a share of them would be a lie."""
    text = Outline(page(msgspec.structs.replace(report, successes=False))).text
    assert "99.97 %" in Outline(page(report)).text
    assert "99.97 %" not in text
    assert "store.attempts.keep" in text


def test_the_page_fits_a_phone_in_a_real_browser(report: LakeReport, tmp_path: Path) -> None:
    """390 pixels, every fold open, names of 200 letters: tables scroll within themselves, the page does not.
    Nothing is fetched even without the policy.
    """
    try:
        browser = chromium.find()
    except Missing as missing:
        skip_or_fail(missing)
    width, fetched = chromium.measured(browser, page(report), tmp_path, 390)
    assert (width, fetched) == (390, 0)
