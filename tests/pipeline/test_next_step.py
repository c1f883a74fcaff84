"""What the lake says of itself beside a verb: where it is, how far it is, and what is useful next."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from app.cli.pipeline import next_step
from app.pipeline.settings import Lake
from app.pipeline.state import LakeState, state
from app.spark.settings import LakeCatalog
from report_lake import END, WAITING, FilledLake


def test_the_state_is_that_of_the_rows(small_lake: FilledLake) -> None:
    """The newest record came a second before the end."""
    found = state(small_lake.lake)
    account = small_lake.account
    [[latest]] = small_lake.session.sql(
        f"SELECT unix_micros(max(record_time)) FROM {small_lake.lake.table('events_raw')}"
    ).collect()
    assert (found.records, found.events, found.quarantined) == (
        account.records + WAITING, account.events, account.invalid,
    )  # fmt: skip
    assert found.latest is not None
    assert round(found.latest.timestamp() * 1_000_000) == latest
    assert found.latest <= END


def test_a_verb_ends_with_the_place_the_counts_and_a_command_to_copy(
    small_lake: FilledLake, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Path("/etc/my bridge.yaml")
    next_step.print_next_step(small_lake.lake, config)
    told = capsys.readouterr()
    where, following = told.err.splitlines()
    account = small_lake.account
    for part in (
        f"{small_lake.lake.catalog.warehouse}, namespace skybridge",
        f"{account.records + WAITING} records, {account.events} events, {account.invalid} in quarantine",
        "up to 2026-11-20T11:59:59Z",
    ):
        assert part in where
    words = shlex.split(following.removeprefix("next: "))
    assert words[:3] == ["skybridge", "pipeline", "query"]
    assert words[3] == next_step.FAULTS  # what is in quarantine comes first
    assert words[4:] == ["--config", str(config)]
    assert told.out == ""


def test_a_lake_that_only_spark_reads_says_where_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lake = Lake(LakeCatalog("jdbc", "jdbc:mysql://h/d", "s3://bucket/lake"))
    next_step.print_next_step(lake, None, "report", look="on one page")
    assert capsys.readouterr().err.splitlines() == [
        "the lake is in s3://bucket/lake, namespace skybridge",
        "next, on one page: skybridge pipeline report",
    ]


def test_an_empty_lake_is_no_fault() -> None:
    assert next_step._far(LakeState(0, 0, 0, None)) == "0 records, 0 events, 0 in quarantine"
