"""``query`` and ``report`` end with the answer, the error or the signal: no thread goes on in a Python that is ending.

A lake of several files is read for one row of it. Arrow, where it read ahead, was still in our generator when the
process ended: "Fatal Python error: PyGILState_Release", exit code 134.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from app.pipeline.query import duck
from app.pipeline.query.opening import open_table
from app.pipeline.query.scan import LakeDataset
from app.pipeline.settings import Lake
from plain_lake import FILE, fill

SKYBRIDGE = Path(sys.executable).with_name("skybridge")
FILES = 4
MANY = pytest.param(25, marks=pytest.mark.nightly)
CONFIG = """
version: 1
brokers: {{main: {{kind: embedded, path: "{folder}/log"}}}}
routes: [{{name: all, to: {{broker: main, topic: x}}}}]
pipeline: {{lake: {{warehouse: "{folder}", catalog: {{properties: {{{properties}}}}}}}}}
"""
SPILLING = "SELECT count(DISTINCT e.data || f.id) FROM events e, events f"
"""It takes hours, and more memory than a query has."""

FSSPEC = "py-io-impl: pyiceberg.io.fsspec.FsspecFileIO"
"""Files that are objects of Python, as those in Azure are."""


class Plain(NamedTuple):
    lake: Lake
    folder: Path

    def config(self, properties: str = "") -> Path:
        file = self.folder / f"skybridge{len(properties)}.yaml"
        file.write_text(CONFIG.format(folder=self.folder, properties=properties))
        return file


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    folder = tmp_path_factory.mktemp("plain-lake")
    return Plain(fill(folder, FILES * FILE), folder)


@contextmanager
def asking(
    plain: Plain, *words: str, scratch: Path, **more: Any
) -> Iterator[subprocess.Popen[str]]:
    environ: Mapping[str, str] = {**os.environ, "TERM": "dumb", "TMPDIR": str(scratch)}
    line = [str(SKYBRIDGE), "pipeline", *words]
    if "--config" not in words:
        line += ["--config", str(plain.config())]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    with subprocess.Popen(line, text=True, cwd=scratch, env=environ, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(plain: Plain, *words: str, scratch: Path, **more: Any) -> tuple[int, str, str]:
    """Run a verb; return its exit code, its output and its messages."""
    with asking(plain, *words, scratch=scratch, **more) as process:
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err


@pytest.mark.nightly
def test_a_short_query_reads_no_file_that_it_does_not_need(
    plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing reads ahead, and every file is closed when the answer is there."""
    rows = LakeDataset(open_table(plain.lake, "events"))
    assert len(rows.files()) == FILES
    files: list[IO[bytes]] = []
    begin = rows.table.io.new_input

    def new_input(place: str) -> Any:
        found = begin(place)
        opening = found.open

        def open_(**options: Any) -> Any:
            files.append(opening(**options))
            return files[-1]

        monkeypatch.setattr(found, "open", open_)
        return found

    monkeypatch.setattr(rows.table.io, "new_input", new_input)
    answer = duck.answer_from({"events": rows}, "SELECT id FROM events LIMIT 1", limit=1)
    assert len(answer.rows) == 1
    assert [file.closed for file in files] == [True]


@pytest.mark.parametrize(
    "properties", ["", pytest.param(FSSPEC, marks=pytest.mark.nightly)], ids=["arrow", "fsspec"]
)
@pytest.mark.parametrize("count", [2, MANY])
def test_a_query_for_few_rows_answers_them_and_ends(
    plain: Plain, tmp_path: Path, count: int, properties: str
) -> None:
    config = ("--config", str(plain.config(properties)))
    limits = (
        ("SELECT 'x' AS x FROM events LIMIT 1",),
        ("SELECT 'x' AS x, * FROM events_raw", "--limit", "1"),
    )
    for turn in range(count):
        words = limits[turn % len(limits)]
        code, out, err = ended(plain, "query", *words, *config, scratch=tmp_path)
        assert (code, "Fatal" in err) == (0, False), f"{turn}: {err}"
        lines = [line.split()[0] for line in out.splitlines()]
        assert lines == ["X", "x"], f"{turn}: {out}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [1, MANY])
def test_an_error_in_the_middle_of_a_query_ends_it_with_its_words(
    plain: Plain, tmp_path: Path, count: int
) -> None:
    sql = f"SELECT CASE WHEN identity = {FILE + 9} THEN error('in the middle') END FROM events"
    for turn in range(count):
        code, out, err = ended(plain, "query", sql, "--limit", "0", scratch=tmp_path)
        assert (code, out) == (2, ""), f"{turn}: {err}"
        assert "in the middle" in err
        assert "Fatal" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
@pytest.mark.parametrize("count", [1, MANY])
def test_a_reader_that_has_read_enough_ends_the_query(
    plain: Plain, tmp_path: Path, count: int
) -> None:
    """``| head -1``."""
    for turn in range(count):
        form = ("json", "csv", "table")[turn % 3]
        words = ("query", "SELECT * FROM events", "--limit", "20000", "--format", form)
        with asking(plain, *words, scratch=tmp_path) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.stdout.close()
            _, err = process.communicate(timeout=300)
            assert (process.returncode, err) == (1, ""), turn


@pytest.mark.nightly
@pytest.mark.parametrize(
    "form", ["csv", *(pytest.param(form, marks=pytest.mark.nightly) for form in ("json", "table"))]
)
def test_an_output_that_cannot_be_written_is_named(plain: Plain, tmp_path: Path, form: str) -> None:
    with Path("/dev/full").open("w") as full:
        words = ("query", "SELECT id FROM events LIMIT 1", "--format", form)
        code, _, err = ended(plain, *words, scratch=tmp_path, stdout=full)
    assert code == 1
    assert "standard output cannot be written: No space left on device" in err
    assert "Traceback" not in err


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["interrupt", "time-out"]
)
@pytest.mark.parametrize(
    "awaited", ["skybridge-*/*query-*", pytest.param("**/duckdb_temp*", marks=pytest.mark.nightly)],
    ids=["asking", "spilling"],
)  # fmt: skip
def test_a_signal_ends_a_query_at_once_and_leaves_no_file(
    plain: Plain, tmp_path: Path, number: signal.Signals, code: int, awaited: str
) -> None:
    """Also while DuckDB spills to disk, which a cancelled query goes on with."""
    with asking(plain, "query", SPILLING, scratch=tmp_path) as process:
        while not any(tmp_path.glob(awaited)):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (code, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_a_report_ends_at_a_signal_too(plain: Plain, tmp_path: Path) -> None:
    with asking(plain, "report", "--json", "--no-deliveries", scratch=tmp_path) as process:
        while not any(tmp_path.glob("skybridge-*/*query-*")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "")
    assert list(tmp_path.iterdir()) == []
