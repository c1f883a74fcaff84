"""A record with a time that Python cannot hold is shown as text by every command that reads the lake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.commands import app as cli
from app.pipeline.query import duck
from app.pipeline.redrive import Batch, RedriveRequest, redrive
from app.pipeline.report.findings import findings
from app.pipeline.report.page import page
from app.pipeline.report.run import ReportRequest, run
from report_lake import BEGIN, END, FilledLake, fill_lake
from spark_answers import spark_answer

CONFIG = """
version: 1
brokers: {{main: {{kind: embedded, path: "{folder}/log"}}}}
routes: [{{name: all, to: {{broker: main, topic: x}}}}]
pipeline: {{lake: {{warehouse: "{folder}"}}}}
"""
TEXT = "58851-04-14 23:06:40"

pytestmark = [pytest.mark.usefixtures("spark")]


@pytest.fixture(scope="module")
def far_lake(tmp_path_factory: pytest.TempPathFactory) -> FilledLake:
    return fill_lake(tmp_path_factory.mktemp("far"), 40, far=True)


def test_both_engines_answer_with_text(far_lake: FilledLake) -> None:
    for asked in (
        "SELECT id, time, record_time FROM events WHERE id = 'far'",
        "SELECT max(record_time) AS t FROM events_raw",
        "SELECT max(struct_pack(t := record_time)) AS s FROM events_raw",
    ):
        by_duck = duck.ask(far_lake.lake, asked, limit=0)
        of_spark = asked.replace("struct_pack(t := record_time)", "struct(record_time AS t)")
        assert spark_answer(far_lake.session, far_lake.lake, of_spark) == by_duck
        assert f"{TEXT}+00" in str(by_duck.rows)


def test_a_report_counts_the_record_and_ends_its_range_before(far_lake: FilledLake) -> None:
    report = run(far_lake.lake, ReportRequest(), made=END)
    totals, account = report.totals, far_lake.account
    assert (totals.records, totals.events) == (account.records, account.events)
    assert (totals.duplicates, totals.invalid) == (account.duplicates, account.invalid)
    assert report.span.begin == BEGIN
    assert report.span.end <= END
    assert TEXT in page(report)
    assert any(
        each.text.startswith("2 records have a time in the year 9999") for each in findings(report)
    )


def test_the_state_of_the_lake_is_printed(far_lake: FilledLake, tmp_path: Path) -> None:
    folder = far_lake.lake.catalog.warehouse.removeprefix("file://")
    config = tmp_path / "skybridge.yaml"
    config.write_text(CONFIG.format(folder=folder))
    out = ["--out", str(tmp_path / "report.html"), "--tables", str(tmp_path / "tables")]
    done = CliRunner().invoke(cli, ["pipeline", "report", *out, "--config", str(config)])
    assert done.exit_code == 0, done.output
    assert f"up to {TEXT}" in " ".join(done.output.split())
    assert TEXT in (tmp_path / "tables" / "types.csv").read_text()


def test_a_record_in_quarantine_is_redriven(tmp_path: Path) -> None:
    filled = fill_lake(tmp_path, 4, far=True)
    sent: list[Batch] = []

    def send(batches: Iterable[Batch]) -> Mapping[str, int]:
        sent.extend(batches)
        return {}

    done = redrive(filled.session, filled.lake, RedriveRequest(("far",), limit=1), send=send)
    assert (done.taken, done.events) == (1, 1)
    assert len(sent) == 1
    again = "SELECT record_time FROM events WHERE id = 'again'"
    assert duck.ask(filled.lake, again, limit=0).rows == [(f"{TEXT}+00",)]
