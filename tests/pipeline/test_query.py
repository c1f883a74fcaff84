"""The lake answers in SQL, and lets nobody change it that way."""

from __future__ import annotations

import json

import pytest

from app.cli.pipeline.query import Format, _tell
from app.errors import SetupError
from app.pipeline.query import ask
from pages import CHECKOUT, blocks
from report_lake import WAITING, Made

PAGE = CHECKOUT / "docs" / "guides" / "pipeline-query.md"

pytestmark = pytest.mark.timeout(900)


@pytest.mark.usefixtures("spark")
def test_the_tables_answer_by_their_short_names(small_lake: Made) -> None:
    """Counts are those of whoever made the events; columns are in the order asked."""
    sql = "SELECT type, count(*) AS n FROM events GROUP BY type ORDER BY n DESC, type"
    answer = ask(small_lake.session, small_lake.lake, sql, limit=0)
    assert answer.columns == ["type", "n"]
    assert dict(answer.rows) == small_lake.account.types
    both = "SELECT (SELECT count(*) FROM events_raw), (SELECT count(*) FROM quarantine)"
    assert ask(small_lake.session, small_lake.lake, both, limit=10).rows == [
        (small_lake.account.records + WAITING, small_lake.account.invalid)
    ]


@pytest.mark.usefixtures("spark")
def test_a_limit_cuts_and_says_so(small_lake: Made) -> None:
    cut = ask(small_lake.session, small_lake.lake, "SELECT id FROM events", limit=3)
    whole = ask(
        small_lake.session,
        small_lake.lake,
        "SELECT id FROM events",
        limit=small_lake.account.events,
    )
    assert (len(cut.rows), cut.more) == (3, True)
    assert (len(whole.rows), whole.more) == (small_lake.account.events, False)


CHANGING = (
    "DELETE FROM lake.skybridge.events",
    "DROP TABLE lake.skybridge.events",
    "INSERT INTO lake.skybridge.events SELECT * FROM events",
    "WITH x AS (SELECT * FROM events) INSERT INTO lake.skybridge.events SELECT * FROM x",
    "CALL lake.system.expire_snapshots('skybridge.events')",
    "CREATE TABLE lake.skybridge.copy USING iceberg AS SELECT * FROM events",
    "MERGE INTO lake.skybridge.events t USING events s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "SET spark.sql.ansi.enabled = false",
)


@pytest.mark.usefixtures("spark")
def test_what_would_change_something_is_refused_and_has_not_run(small_lake: Made) -> None:
    for sql in CHANGING:
        with pytest.raises(SetupError, match="only reads"):
            ask(small_lake.session, small_lake.lake, sql, limit=0)
            pytest.fail(f"it was not refused: {sql}")
    count = ask(small_lake.session, small_lake.lake, "SELECT count(*) FROM events", limit=0)
    assert count.rows == [(small_lake.account.events,)]
    assert not small_lake.session.catalog.tableExists("lake.skybridge.copy")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "sql", ["SELEC 1", "SELECT nothing FROM events", "SELECT * FROM elsewhere"]
)
def test_sql_that_cannot_be_is_refused_with_the_names_that_there_are(
    small_lake: Made, sql: str
) -> None:
    with pytest.raises(SetupError) as refusal:
        ask(small_lake.session, small_lake.lake, sql, limit=0)
    assert "events_raw" in refusal.value.cure


@pytest.mark.usefixtures("spark")
def test_describe_and_show_tell(small_lake: Made) -> None:
    described = ask(small_lake.session, small_lake.lake, "DESCRIBE events", limit=0)
    assert ("time_text", "string") in [row[:2] for row in described.rows]


@pytest.mark.usefixtures("spark")
def test_json_is_one_object_a_line_with_times_of_utc(
    small_lake: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes as base64, maps as objects, instants with their zone."""
    sql = (
        "SELECT id, time, extensions, key, 1.10 AS price FROM events"
        " WHERE time IS NOT NULL ORDER BY record_time LIMIT 2"
    )
    _tell(ask(small_lake.session, small_lake.lake, sql, limit=0), Format.JSON)
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["id"] == small_lake.account.ids[0][1]
    assert first["time"].endswith("Z")
    assert (first["extensions"], first["price"]) == ({}, "1.10")


@pytest.mark.usefixtures("spark")
def test_csv_and_the_table_have_the_same_values(
    small_lake: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ask(
        small_lake.session, small_lake.lake, "SELECT 'a,b' AS x, NULL AS y, X'6b' AS z", limit=0
    )
    _tell(answer, Format.CSV)
    assert capsys.readouterr().out == 'x,y,z\n"a,b",,k\n'
    _tell(answer, Format.TABLE)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["X", "Y", "Z"],
        ["a,b", "-", "k"],
    ]


@pytest.mark.usefixtures("spark")
def test_the_examples_of_the_guide_run(
    small_lake: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark, DuckDB and PyIceberg as pasted, in a folder with a lake; they count the same events."""
    folder = small_lake.lake.catalog.warehouse.removeprefix("file://")
    found = [block.text for block in blocks(PAGE) if block.language == "python"]
    assert len(found) == 3
    for text in found:
        exec(compile(text.replace("skybridge-data/lake", folder.strip("/")), str(PAGE), "exec"), {})
    said = capsys.readouterr().out
    for type_, count in small_lake.account.types.items():
        assert said.count(f"{type_} {count}\n") == 3
