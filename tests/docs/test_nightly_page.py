"""docs/nightly.md is what ``make nightly`` writes, and nothing on it waits to be mended."""

from __future__ import annotations

from pathlib import Path

import nightly
from pages import CHECKOUT


def test_no_row_waits_to_be_mended():
    """What failed at night is mended before anything is added."""
    assert [str(row) for row in nightly.rows().values() if not row.passed] == []


def test_every_file_of_the_page_is_there_and_has_tests_of_the_night():
    """A row of a file that moved would say that something is protected which is not."""
    for file in nightly.rows():
        assert "nightly" in (CHECKOUT / file).read_text() or (CHECKOUT / file).parent.name in {
            "e2e",  # scenarios that several files share
            "kafka_clients",  # by the client that they ask
        }


def test_a_page_is_read_as_it_was_written(tmp_path: Path):
    """A run goes on from the page that an earlier one left."""
    page = tmp_path / "nightly.md"
    green = nightly.Row(
        "tests/faults/test_kill.py", "2 passed, 1 skipped", 61, "abc1234", "2026-11-23"
    )
    red = nightly.Row("tests/e2e/test_pull.py", "1 failed, 2 passed", 5, "abc1234", "2026-11-23")
    nightly.write([green, red], page)
    assert nightly.rows(page) == {green.file: green, red.file: red}
    assert (green.passed, red.passed) == (True, False)
    empty = green._replace(result="failed: pytest ended with 4")
    assert not empty.passed


def test_what_a_library_writes_at_the_end_hides_no_result():
    """DuckDB's bindings list what they leaked when the process ends, below pytest's own summary."""
    said = "tests/x.py ..\n===== 2 passed, 1 skipped in 62.10s (0:01:02) =====\nnanobind: leaked 3 types!\n"
    assert nightly.outcome(said, 0) == "2 passed, 1 skipped"
    assert (
        nightly.outcome("==== short test summary info ====\nFAILED x\n= 1 failed in 0.01s =", 1)
        == "1 failed"
    )
    assert nightly.outcome("Fatal Python error\n", 134) == "failed: pytest ended with 134"
