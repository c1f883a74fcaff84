"""A report says of a lake what those say who filled it."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.errors import SetupError
from app.interfaces import Attempt, EventName
from app.model.message import Partition
from app.pipeline.query import duck
from app.pipeline.report import scope, tables
from app.pipeline.report.page import page
from app.pipeline.report.run import STEPS, LakeReport, ReportRequest, run
from app.pipeline.report.samples import former
from app.store import attempt_log, open_store
from report_lake import BEGIN, END, HOT, LATE, MIDDLE, ORDER, WAITING, FilledLake

pytestmark = [pytest.mark.usefixtures("spark")]


def attempt(event: tuple[str, str, str], number: int, outcome: str) -> Attempt:
    source, name, type_ = event
    return Attempt(
        subscription="billing", partition=Partition("orders", 0), position="0",
        event=EventName(name, source, type_), number=number, outcome=outcome, duration_ms=20.0,
        started_ms=round(END.timestamp() * 1000) + number * 1000,
    )  # fmt: skip


async def keep(path: Path, attempts: list[Attempt]) -> None:
    store = open_store(path, timeout=30, max_letters=10)
    await store.start()
    await store.attempts.add(attempts)
    await store.stop()


@pytest.fixture(scope="module")
def reported(
    small_lake: FilledLake, tmp_path_factory: pytest.TempPathFactory
) -> tuple[LakeReport, list[str]]:
    """Of everything, with deliveries: the first ten events arrive at once, five after a retry, one is given
    up, two are under way, and one is of another lake.
    """
    store = tmp_path_factory.mktemp("store") / "store.db"
    ids = small_lake.account.ids
    tried = [attempt(each, 1, "delivered") for each in ids[:10]]
    tried += [attempt(each, 1, "retry") for each in ids[10:18]]
    tried += [attempt(each, 2, "delivered") for each in ids[10:15]]
    tried += [
        attempt(ids[15], 2, "dead-letter"),
        attempt(("/elsewhere", "n-1", "t"), 1, "delivered"),
    ]
    asyncio.run(keep(store, tried))
    steps: list[str] = []
    wanted = ReportRequest(attempts=attempt_log.of_file(store), successes=True)
    report = run(small_lake.lake, wanted, made=END, tell=steps.append)
    return report, steps


def test_every_record_is_an_event_a_duplicate_or_invalid(
    small_lake: FilledLake, reported: tuple[LakeReport, list[str]]
) -> None:
    """And those that wait are counted apart."""
    report, account = reported[0], small_lake.account
    totals = report.totals
    assert (totals.records, totals.events) == (account.records, account.events)
    assert (totals.duplicates, totals.invalid) == (account.duplicates, account.invalid)
    assert totals.records == totals.events + totals.duplicates + totals.invalid
    assert (totals.waiting, totals.keys) == (WAITING, len(account.keys))
    assert report.span.begin == BEGIN


def test_volume_is_that_of_each_type_and_source(
    small_lake: FilledLake, reported: tuple[LakeReport, list[str]]
) -> None:
    report, account = reported[0], small_lake.account
    assert dict(zip(*columns(report, "types", "type", "events"), strict=True)) == account.types
    assert (
        dict(zip(*columns(report, "sources", "source", "events"), strict=True)) == account.sources
    )
    for name, counts in (("type", account.types), ("source", account.sources)):
        over_time: Counter[str] = Counter()
        for row in report.tables[f"volume_by_{name}"].dicts():
            over_time[row[name]] += row["events"]
        assert over_time == counts


def test_percentiles_are_those_of_the_events(
    small_lake: FilledLake, reported: tuple[LakeReport, list[str]]
) -> None:
    """Delay in seconds, size of values in bytes: of so few, they are exact."""
    totals, account = reported[0].totals, small_lake.account
    assert totals.delay_p50 == pytest.approx(rank(account.delays, 0.5))
    assert totals.delay_p99 == pytest.approx(rank(account.delays, 0.99))
    assert (totals.size_p50, totals.size_p99) == (
        rank(account.sizes, 0.5),
        rank(account.sizes, 0.99),
    )
    assert (totals.size_total, totals.size_most) == (sum(account.sizes), max(account.sizes))
    assert sum(reported[0].tables["sizes"].column("records")) == account.records


def test_keys_and_rules_are_counted(
    small_lake: FilledLake, reported: tuple[LakeReport, list[str]]
) -> None:
    report, account = reported[0], small_lake.account
    assert report.tables["keys"].rows[0] == (HOT.decode(), account.keys[HOT])
    [rule] = report.tables["invalid"].dicts()
    assert (rule["rule"], rule["records"]) == ("missing-attribute", account.invalid)
    assert rule["detail"] == "source: is required"


def test_drift_is_what_changed_in_the_middle(reported: tuple[LakeReport, list[str]]) -> None:
    """Of the one type whose data changed, and of no other."""
    assert sorted(reported[0].tables["drift"].rows) == [
        (ORDER, "$.amount", "type changed", "number", "string"),
        (ORDER, "$.coupon", "removed", "100%", "0%"),
        (ORDER, "$.lines", "added", "0%", "100%"),
    ]


def test_deliveries_are_joined_by_source_and_id(
    small_lake: FilledLake, reported: tuple[LakeReport, list[str]]
) -> None:
    rows = reported[0].tables["deliveries"].dicts()
    sums = Counter[str]()
    for row in rows:
        sums.update(
            {
                name: row[name]
                for name in ("events", "delivered", "at_once", "given_up", "open", "attempts")
            }
        )
    assert sums == {
        "events": 18, "delivered": 15, "at_once": 10, "given_up": 1, "open": 2, "attempts": 24
    }  # fmt: skip
    assert {row["type"] for row in rows} == {type_ for _, _, type_ in small_lake.account.ids[:18]}


def test_the_page_and_the_files_hold_it_all(
    reported: tuple[LakeReport, list[str]], tmp_path: Path
) -> None:
    report, steps = reported
    assert tuple(steps) == STEPS
    assert f"{report.totals.events:,}" in page(report)
    tables.write(tmp_path, report.tables)
    assert {file.stem for file in tmp_path.iterdir()} == set(report.tables)
    assert set(former(tmp_path / "schemas.csv")) == set(report.tables["types"].column("type"))


def test_a_range_is_counted_by_the_brokers_clock_and_knows_what_is_new(
    small_lake: FilledLake, reported: tuple[LakeReport, list[str]], tmp_path: Path
) -> None:
    """The second hour alone; its schemas do not differ from an earlier report of the whole in kinds that
    both have.
    """
    report = run(small_lake.lake, ReportRequest(since=MIDDLE, until=END), made=END)
    early = sum(
        1
        for row in reported[0].tables["flow"].dicts()
        if row["begin"] >= MIDDLE
        for _ in range(row["records"])
    )
    assert report.totals.records == early
    assert report.fresh == (LATE,)
    assert report.successes is None
    assert (report.span.begin, report.span.end) == (MIDDLE, END)


def test_a_range_without_records_is_refused(small_lake: FilledLake) -> None:
    with pytest.raises(SetupError, match="no record"):
        run(small_lake.lake, ReportRequest(since=END), made=END)


def test_where_no_snapshot_tells_the_progress_the_rows_of_quarantine_do(
    small_lake: FilledLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else may have expired that snapshot: what lies beyond the last refused record waits."""
    monkeypatch.setattr(scope, "derived_progress", lambda _: None)
    last = 'SELECT "partition", max("offset") AS last FROM quarantine GROUP BY ALL'
    beyond = (
        f'SELECT count(*) FROM events_raw JOIN ({last}) USING ("partition") WHERE "offset" > last'
    )
    [(waiting,)] = duck.ask(small_lake.lake, beyond, limit=0).rows
    totals = run(small_lake.lake, ReportRequest(), made=END).totals
    assert totals.waiting == waiting > WAITING
    assert totals.records + totals.waiting == small_lake.account.records + WAITING


def test_a_store_that_cannot_be_read_is_told_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database, by far" * 99)
    with pytest.raises(SetupError) as refusal:
        attempt_log.of_file(tmp_path / "store.db")(0)
    assert "--no-deliveries" in refusal.value.cure


def columns(report: LakeReport, table: str, *names: str) -> list[list[Any]]:
    return [report.tables[table].column(name) for name in names]


def rank(values: list[Any], share: float) -> Any:
    """The least value that so many are not above."""
    return sorted(values)[math.ceil(share * len(values)) - 1]
