"""The lake answers in SQL, and lets nobody change it that way."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from app.cli import exits
from app.cli.commands import app as cli
from app.cli.pipeline.query import OutputFormat, _print_answer
from app.errors import SetupError
from app.pipeline.query import duck
from app.pipeline.query.duck import QueryAnswer
from app.pipeline.query.opening import open_table
from app.pipeline.query.scan import LakeDataset
from app.pipeline.settings import Lake
from app.spark.settings import LakeCatalog
from pages import CHECKOUT, blocks
from postgres_server import fresh_database
from report_lake import BEGIN, ORDER, WAITING, FilledLake, fill_lake
from spark_answers import spark_answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """
version: 1
brokers: {{main: {{kind: embedded, path: "{folder}/log"}}}}
routes: [{{name: all, to: {{broker: main, topic: x}}}}]
pipeline: {{lake: {{warehouse: "{folder}"}}}}
"""

PAGE = CHECKOUT / "docs" / "guides" / "pipeline-query.md"


def ask(lake: FilledLake, sql: str, *, limit: int = 0) -> QueryAnswer:
    return duck.ask(lake.lake, sql, limit=limit)


def test_the_tables_answer_by_their_short_names(small_lake: FilledLake) -> None:
    """Counts are those of whoever made the events; columns are in the order asked."""
    sql = "SELECT type, count(*) AS n FROM events GROUP BY type ORDER BY n DESC, type"
    answer = ask(small_lake, sql)
    assert answer.columns == ["type", "n"]
    assert dict(answer.rows) == small_lake.account.types
    both = "SELECT (SELECT count(*) FROM events_raw), (SELECT count(*) FROM quarantine)"
    assert ask(small_lake, both).rows == [
        (small_lake.account.records + WAITING, small_lake.account.invalid)
    ]


SAME = (
    "SELECT * FROM events ORDER BY id",
    "SELECT * FROM events_raw ORDER BY partition, `offset`",
    "SELECT * FROM quarantine ORDER BY record_time",
    "SELECT id, time FROM events WHERE source = '/shop/1' AND record_time >= TIMESTAMP '2026-11-20 11:00:00Z' ORDER BY id",
    "SELECT type, min(time) AS a, max(`offset`) AS b FROM events GROUP BY type ORDER BY type",
    "SELECT e.id FROM events e JOIN events_raw r ON e.partition = r.partition AND e.`offset` = r.`offset` ORDER BY e.id",
)


def test_spark_has_the_same_rows_of_the_same_words(small_lake: FilledLake) -> None:
    """Of every column of every table: times, binary values, maps, lists of structs, nulls."""
    for sql in SAME:
        by_spark = spark_answer(small_lake.session, small_lake.lake, sql)
        assert ask(small_lake, sql.replace("`", '"')) == by_spark, sql


TERMS = (
    "type {sign} 'com.example.{word}'", "source {sign} '/shop/{number}'", "id {sign} 'n-{number}'",
    '"offset" {sign} {number}', "partition {sign} {number}", "subject IS {null}", "time IS {null}",
    "record_time {sign} TIMESTAMPTZ '2026-11-20 1{digit}:30:00Z'", "identity {sign} 0",
    "key {sign} 'customer-{number}'::BLOB", "type IN ('com.example.{word}', 'x')", "data LIKE '%{number}%'",
)  # fmt: skip


@pytest.mark.parametrize("count", [100, pytest.param(600, marks=pytest.mark.nightly)])
def test_conditions_that_skip_files_and_rows_find_what_is_found_without(
    small_lake: FilledLake, count: int
) -> None:
    """So many of them, over the same rows in memory, where nothing is skipped."""
    import duckdb

    chance = random.Random(count)
    whole = LakeDataset(open_table(small_lake.lake, "events")).scanner().to_reader().read_all()
    assert whole.num_rows == small_lake.account.events
    found = 0
    events = LakeDataset(open_table(small_lake.lake, "events"))
    with duckdb.connect() as memory, duck.connected({"events": events}) as lake:
        memory.execute("SET TimeZone = 'UTC'")
        memory.register("events", whole)
        for _ in range(count):
            sql = f"SELECT id, type FROM events WHERE {condition(chance)} ORDER BY id"
            rows = lake.execute(sql).fetchall()
            assert rows == memory.execute(sql).fetchall(), sql
            found += bool(rows)
    assert count / 6 < found < count * 0.97


def condition(chance: random.Random) -> str:
    def term() -> str:
        text = chance.choice(TERMS).format(
            sign=chance.choice(["=", "<>", "<", "<=", ">", ">="]),
            word=chance.choice(["order", "paid", "refund", "a", "z"]),
            number=chance.randrange(40),
            digit=chance.randrange(4),
            null=chance.choice(["NULL", "NOT NULL"]),
        )
        return chance.choice(["", "NOT "]) + text

    return chance.choice([" AND ", " OR "]).join(f"({term()})" for _ in range(chance.randint(1, 3)))


def test_a_limit_cuts_and_says_so(small_lake: FilledLake) -> None:
    events = small_lake.account.events
    cut = ask(small_lake, "SELECT id FROM events", limit=3)
    whole = ask(small_lake, "SELECT id FROM events", limit=events)
    assert (len(cut.rows), cut.more) == (3, True)
    assert (len(whole.rows), whole.more) == (events, False)
    endless = duck.ask(small_lake.lake, "SELECT * FROM range(1000000000000)", limit=3)
    assert (len(endless.rows), endless.more) == (3, True)


CHANGING = (
    "DELETE FROM events",
    "DROP VIEW events",
    "INSERT INTO events SELECT * FROM events",
    "WITH x AS (SELECT * FROM events) INSERT INTO y SELECT * FROM x",
    "CREATE TABLE copy AS SELECT * FROM events",
    "COPY (SELECT 1) TO '{folder}/leak.csv'",
    "EXPORT DATABASE '{folder}/leak'",
    "ATTACH '{folder}/leak.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "UPDATE EXTENSIONS",
    "SET threads = 1",
    "RESET enable_external_access",
    "SET VARIABLE x = 1",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "PREPARE p AS SELECT 1",
    "BEGIN",
    "CHECKPOINT",
    "CREATE SECRET (TYPE s3)",
)
HOSTILE = (
    "SELECT * FROM read_csv('{folder}/secret')",
    "SELECT * FROM read_text('{folder}/secret')",
    "FROM '{folder}/secret'",
    "FROM '{folder}/secret.parquet'",
    "FROM sniff_csv('{folder}/secret')",
    "FROM glob('{folder}/*')",
    "FROM query('COPY (SELECT 1) TO ''{folder}/leak.csv''')",
    "FROM read_duckdb('{folder}/leak.db')",
    "SELECT getenv('HOME')",
    "SELECT * FROM leaked",
    "SELECT * FROM duckdb_extensions()",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/leak.csv'",
    "EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1",
    "EXPLAIN ANALYZE SET threads = 1",
    "EXPLAIN ANALYZE INSTALL httpfs",
)


def test_what_would_change_something_is_refused(small_lake: FilledLake, tmp_path: Path) -> None:
    for sql in CHANGING:
        with pytest.raises(SetupError, match="only reads"):
            ask(small_lake, sql.format(folder=tmp_path))
            pytest.fail(f"it was not refused: {sql}")
    for several in ("SELECT 1; SELECT 2", "", "-- nothing"):
        with pytest.raises(SetupError, match="query takes one"):
            ask(small_lake, several)
    assert list(tmp_path.iterdir()) == []


def test_hostile_sql_sees_no_file_no_setting_and_no_variable(
    small_lake: FilledLake, tmp_path: Path
) -> None:
    """Files, the network, extensions, settings, the environment, what Python has under a name."""
    leaked = pa.table({"secret": [1]})
    (tmp_path / "secret").write_text("a,b\n1,2\n")
    for sql in HOSTILE:
        with pytest.raises(SetupError, match="DuckDB refused this SQL"):
            ask(small_lake, sql.format(folder=tmp_path))
            pytest.fail(f"it was not refused: {sql}")
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]
    assert leaked.num_rows == 1
    names = "'enable_external_access', 'lock_configuration', 'python_enable_replacements'"
    shut = f"SELECT name, value FROM duckdb_settings() WHERE name IN ({names}) ORDER BY name"
    assert [value for _, value in ask(small_lake, shut).rows] == ["false", "true", "false"]


@pytest.mark.parametrize(
    "sql", ["SELEC 1", "SELECT nothing FROM events", "SELECT * FROM elsewhere"]
)
def test_sql_that_cannot_be_is_refused_with_the_names_that_there_are(
    small_lake: FilledLake, sql: str
) -> None:
    with pytest.raises(SetupError) as refusal:
        ask(small_lake, sql)
    assert "events_raw" in refusal.value.cure


def test_describe_and_show_tell(small_lake: FilledLake) -> None:
    described = ask(small_lake, "DESCRIBE events")
    assert ("time_text", "VARCHAR") in [row[:2] for row in described.rows]
    assert ask(small_lake, "SHOW TABLES").rows == [("events",), ("events_raw",), ("quarantine",)]


def test_a_column_that_nobody_names_is_not_read(small_lake: FilledLake) -> None:
    """The columns that Arrow is asked for: those of the query and of its conditions."""
    asked = {
        "SELECT count(*) FROM events_raw": {"broker"},
        'SELECT topic, max("offset") FROM events_raw GROUP BY topic': {"topic", "offset"},
        "SELECT count(*) FROM events_raw WHERE partition = 1 AND record_time > '2026-01-01'": {
            "partition", "record_time", "broker",
        },
        "SELECT r.key FROM (SELECT * FROM events_raw) r WHERE r.topic LIKE 'ord%'": {"key", "topic"},
    }  # fmt: skip
    for sql, columns in asked.items():
        rows = duck.datasets_of(small_lake.lake, sql)
        assert rows.keys() == {"events_raw"}  # a table that is not named is not opened
        duck.answer_from(rows, sql, limit=0)
        [[*scanned]] = rows["events_raw"].asked
        assert set(scanned) <= columns, sql


def test_files_outside_a_condition_are_not_opened(small_lake: FilledLake) -> None:
    """By the bounds that Iceberg keeps: two buckets have two ranges of identities."""
    rows = LakeDataset(open_table(small_lake.lake, "events"))
    assert len(rows.files()) > 1
    assert rows.files(pc.field("record_time") < pa.scalar(BEGIN)) == []
    assert rows.files(pc.field("type") == ORDER) == rows.files()
    assert rows.files(pc.field("type") == "a type before all") == []
    assert rows.files(pc.field("subject").is_null()) == rows.files()  # all are: no bound is known


@pytest.mark.nightly
def test_rows_that_were_deleted_and_columns_that_came_later_are_as_spark_has_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Positions of deleted rows lie beside the files (merge-on-read); older files lack a newer column."""
    lake = fill_lake(tmp_path, 60)
    assert spark is not None
    events = lake.lake.table("events")
    act = lake.session.sql
    act(f"ALTER TABLE {events} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    act(f"DELETE FROM {events} WHERE source = '/shop/1'")
    alike(lake)
    assert any(task.delete_files for task in LakeDataset(open_table(lake.lake, "events")).files())
    gone = ask(lake, "SELECT count(*) FROM events WHERE source = '/shop/1'")
    assert gone.rows == [(0,)]
    act(f"ALTER TABLE {events} ADD COLUMN later STRING FIRST")
    act(f"ALTER TABLE {events} RENAME COLUMN subject TO named")
    act(f"UPDATE {events} SET later = 'now' WHERE source = '/shop/2'")
    alike(lake)


def alike(lake: FilledLake) -> None:
    sql = "SELECT * FROM events WHERE type <> 'x' ORDER BY id"
    assert ask(lake, sql) == spark_answer(lake.session, lake.lake, sql)


def test_what_pyiceberg_cannot_read_is_left_to_spark(
    small_lake: FilledLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deletions by equality: Flink and others write them."""
    from pyiceberg.table import DataScan

    def refuse(_: DataScan) -> None:
        raise ValueError("PyIceberg does not yet support equality deletes")

    monkeypatch.setattr(DataScan, "plan_files", refuse)
    with pytest.raises(SetupError, match="equality deletes") as refusal:
        ask(small_lake, "SELECT id FROM events")
    assert "Spark reads them" in refusal.value.cure


def test_a_catalog_of_files_is_read_from_its_newest_version_on(
    small_lake: FilledLake, tmp_path: Path
) -> None:
    """The hint is written after the metadata: it may be one behind, or missing."""
    table = open_table(small_lake.lake, "events")
    metadata = Path(table.metadata_location.removeprefix("file:")).read_text()
    place = tmp_path / "skybridge" / "events" / "metadata"
    place.mkdir(parents=True)
    lake = Lake(LakeCatalog("hadoop", "", tmp_path.as_uri()))
    with pytest.raises(SetupError, match=r"there is no table lake\.skybridge\.events"):
        open_table(lake, "events")
    for hint, version in ((None, 1), ("1", 1), ("1", 2), ("2", 2)):
        (place / f"v{version}.metadata.json").write_text(metadata)
        if hint is not None:
            (place / "version-hint.text").write_text(hint)
        assert open_table(lake, "events").metadata_location.endswith(f"/v{version}.metadata.json")
    count = duck.ask(lake, "SELECT count(*) FROM events", limit=0)
    assert count.rows == [(small_lake.account.events,)]


@pytest.mark.postgres
def test_a_catalog_in_postgresql_is_read(small_lake: FilledLake, postgres: str) -> None:
    """As Java's driver is told of it."""
    import psycopg

    place = open_table(small_lake.lake, "events").metadata_location
    dsn = fresh_database(postgres)
    server, _, schema = dsn.partition("?options=-csearch_path%3D")
    uri = f"jdbc:{server}?currentSchema={schema}"
    lake = Lake(LakeCatalog("jdbc", uri, small_lake.lake.catalog.warehouse))
    with pytest.raises(SetupError, match="there is no table"):
        open_table(lake, "events")
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "CREATE TABLE iceberg_tables (catalog_name text, table_namespace text, table_name text,"
            " metadata_location text)"
        )
        row = ("lake", "skybridge", "events", place)
        connection.execute("INSERT INTO iceberg_tables VALUES (%s, %s, %s, %s)", row)
    count = duck.ask(lake, "SELECT count(*) FROM events", limit=0)
    assert count.rows == [(small_lake.account.events,)]


@pytest.mark.parametrize(
    ("catalog", "why"),
    [
        (
            LakeCatalog("jdbc", "jdbc:mysql://h/d", "s3://b"),
            "cannot be opened by PyIceberg",
        ),
        (LakeCatalog("hive", "thrift://127.0.0.1:1", "s3://b"), "cannot be opened by PyIceberg"),
        (LakeCatalog("glue", "", "s3://b"), "cannot be opened by PyIceberg"),
        (LakeCatalog("hadoop", "", "wasp://b/c"), "cannot be opened by PyIceberg"),
    ],
)
def test_a_catalog_that_is_not_read_names_what_reads_it(catalog: LakeCatalog, why: str) -> None:
    with pytest.raises(SetupError, match=why) as refusal:
        open_table(Lake(catalog), "events")
    assert "Spark reads every catalog" in refusal.value.cure


def test_a_lake_that_is_not_there_names_the_verb_that_fills_it(tmp_path: Path) -> None:
    """And asking makes none."""
    lake = Lake(LakeCatalog("jdbc", f"jdbc:sqlite:{tmp_path}/catalog.db", tmp_path.as_uri()))
    with pytest.raises(SetupError, match="there is no table") as refusal:
        duck.ask(lake, "SELECT 1 FROM events", limit=0)
    assert "skybridge pipeline archive" in refusal.value.cure
    assert list(tmp_path.iterdir()) == []


def test_no_verb_starts_spark_for_a_lake_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "skybridge.yaml"
    file.write_text(CONFIG.format(folder=tmp_path / "lake"))
    for verb in (
        "report",
        "maintain",
        "redrive",
        "erase --subject a --yes",
    ):
        with mock.patch("app.spark.session.open_session", side_effect=AssertionError):
            found = CliRunner().invoke(cli, ["pipeline", *verb.split(), "--config", str(file)])
        assert isinstance(found.exception, SetupError), verb
        assert "there is no table" in str(found.exception)


def test_json_is_one_object_a_line_with_times_of_utc(
    small_lake: FilledLake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes as base64, maps as objects, instants with their zone, numbers that JSON has none for as text."""
    sql = (
        "SELECT id, time, extensions, key, 1.10 AS price, sum(1) OVER () AS n, 2::HUGEINT ** 1 AS two,"
        " 170141183460469231731687303715884105727 AS largest"
        " FROM events WHERE time IS NOT NULL ORDER BY record_time LIMIT 2"
    )
    _print_answer(ask(small_lake, sql), OutputFormat.JSON)
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["id"] == small_lake.account.ids[0][1]
    assert first["time"].endswith("Z")
    assert (first["extensions"], first["price"]) == ({}, "1.10")
    assert (first["n"], first["largest"]) == (2, str(2**127 - 1)) or first["n"] > 2


def test_csv_and_the_table_have_the_same_values(
    small_lake: FilledLake, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ask(small_lake, "SELECT 'a,b' AS x, NULL AS y, 'k'::BLOB AS z")
    _print_answer(answer, OutputFormat.CSV)
    assert capsys.readouterr().out == 'x,y,z\n"a,b",,k\n'
    _print_answer(answer, OutputFormat.TABLE)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["X", "Y", "Z"],
        ["a,b", "-", "k"],
    ]


ALONE = """
import sys
from app.cli.commands import app
try:
    app()
finally:
    print(sorted({"pandas", "pyspark", "sqlalchemy"} & sys.modules.keys()))
"""


def test_the_verb_asks_without_java_and_loads_no_spark(
    small_lake: FilledLake, tmp_path: Path
) -> None:
    """A process of its own, on whose PATH there is no Java."""
    file = tmp_path / "skybridge.yaml"
    folder = small_lake.lake.catalog.warehouse
    file.write_text(CONFIG.format(folder=folder))
    words = ["pipeline", "query", "SELECT count(*) AS n FROM events", "--config", str(file)]
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *words],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PATH": "", "JAVA_HOME": "", "TERM": "dumb"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["N", str(small_lake.account.events), "[]"]


def test_the_verb_says_what_is_wrong_with_a_code_of_its_own(
    small_lake: FilledLake, tmp_path: Path
) -> None:
    file = tmp_path / "skybridge.yaml"
    folder = small_lake.lake.catalog.warehouse
    file.write_text(CONFIG.format(folder=folder))
    words = ("--config", str(file), "--limit", "1")
    cut = CliRunner().invoke(cli, ["pipeline", "query", "-", *words], input="SELECT id FROM events")
    assert (cut.exit_code, "--limit 0 prints all" in cut.output) == (exits.OK, True)
    wrong = CliRunner().invoke(cli, ["pipeline", "query", "DROP VIEW events", *words])
    assert isinstance(wrong.exception, SetupError)


def test_the_examples_of_the_guide_run(small_lake: FilledLake) -> None:
    shell = "\n".join(block.text for block in blocks(PAGE) if block.language == "bash")
    asked = re.findall(r'pipeline query "([^"]+)"(.*)', shell)
    assert len(asked) == 13
    for sql, options in asked:
        if "--at" not in options:  # the small lake is younger
            assert ask(small_lake, sql).columns, sql
