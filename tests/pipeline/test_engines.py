"""The recipes of the page of other engines run as pasted, on a lake in a folder."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from app.errors import SetupError
from app.pipeline.query import duck
from pages import CHECKOUT, blocks
from report_lake import FilledLake, fill_lake
from spark_answers import spark_answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = CHECKOUT / "docs" / "guides" / "pipeline-engines.md"


def pasted(language: str) -> list[str]:
    return [block.text for block in blocks(PAGE) if block.language == language]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> FilledLake:
    """Some events of one source were removed, so the table has two snapshots."""
    assert spark is not None
    found = fill_lake(tmp_path_factory.mktemp("engines"), 60)
    found.session.sql(f"DELETE FROM {found.lake.table('events')} WHERE source = '/shop/1'")
    return found


def test_each_engine_counts_the_same_events_and_spark_knows_the_changes(
    lake: FilledLake, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = lake.lake.catalog.warehouse.removeprefix("file://")
    names: dict[str, Any] = {}
    found = pasted("python")
    assert len(found) == 4
    for text in found:
        exec(
            compile(text.replace("skybridge-data/lake", folder.strip("/")), str(PAGE), "exec"),
            names,
        )
    said = capsys.readouterr().out
    left = [type_ for source, _, type_ in lake.account.ids if source != "/shop/1"]
    for type_ in set(left):
        assert said.count(f"{type_} {left.count(type_)}\n") == 3
    assert f"DELETE {len(lake.account.ids) - len(left)}\n" in said


def test_the_newest_event_is_found_by_the_sql_of_the_page(lake: FilledLake) -> None:
    [sql] = [text for text in pasted("sql") if "row_number" in text and "INTEGRATION" not in text]
    views = "SELECT source, subject, id, type, time, data FROM events_latest ORDER BY source"
    expected = duck.ask(lake.lake, views, limit=0)
    assert len(expected.rows) == 4
    assert duck.ask(lake.lake, f"{sql} ORDER BY source", limit=0) == expected
    assert spark_answer(lake.session, lake.lake, f"{sql} ORDER BY source") == expected


def test_the_snapshots_of_a_table_are_rows_and_its_older_rows_are_found(lake: FilledLake) -> None:
    """As Spark's metadata tables have them: all events first, and then those that were not removed."""
    listed = "SELECT snapshot_id, operation FROM {} ORDER BY committed_at"
    expected = spark_answer(
        lake.session, lake.lake, listed.format("lake.skybridge.events.snapshots")
    )
    assert duck.ask(lake.lake, listed.format("events_snapshots"), limit=0) == expected
    for what in duck.METADATA:
        assert duck.ask(lake.lake, f"SELECT * FROM events_{what}", limit=0).rows, what
    count = "SELECT count(*) FROM events"
    moments = "SELECT committed_at FROM events_snapshots ORDER BY 1"
    at = [each.replace(tzinfo=UTC) for (each,) in duck.ask(lake.lake, moments, limit=0).rows]
    found = [duck.ask(lake.lake, count, limit=0, at=each).rows[0][0] for each in at]
    left = [source for source, *_ in lake.account.ids if source != "/shop/1"]
    assert found == [lake.account.events, len(left)]
    with pytest.raises(SetupError, match="has no snapshot of") as refusal:
        duck.ask(lake.lake, count, limit=0, at=at[0] - timedelta(seconds=1))
    assert "events_snapshots" in refusal.value.cure
