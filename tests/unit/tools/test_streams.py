"""The processes that share the tests of a run (``tests/support/streams.py``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pages import CHECKOUT
from streams import unit_of

TESTS = """
import os, pytest
from pathlib import Path

@pytest.fixture(scope="session")
def place():
    yield Path(__file__).parent
    (Path(__file__).parent / f"{os.getpid()}.ended").touch()

@pytest.mark.parametrize("number", range(20))
def test_is_run_once(place, number):
    with (place / "ran").open("a") as file:
        file.write(f"{Path(__file__).name}-{number}\\n")

def test_fails():
    print("what it printed")
    assert os.environ.get("GREEN")

def test_is_skipped():
    pytest.skip()

def test_ends_its_process():
    if os.environ.get("ENDS") == Path(__file__).name:
        os._exit(7)

def test_ends_the_run():
    if os.environ.get("EXITS") == Path(__file__).name:
        pytest.exit("enough")
"""
FILES = ("test_a.py", "test_b.py", "test_c.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").touch()
    for name in FILES:
        (tmp_path / name).write_text(TESTS)
    return tmp_path


def run(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of the folder in two streams, without other plugins, which take longer than all of them."""
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(CHECKOUT / "tests/support")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "streams", "--streams", "2", *words],
        cwd=folder, env={**os.environ, **alone, **environ},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip


def test_each_test_runs_once_and_each_report_arrives(folder: Path) -> None:
    """The summary is that of one process, and each stream tears its own fixtures down."""
    done = run(folder)
    assert "3 failed, 66 passed, 3 skipped" in done.stdout
    assert done.stdout.count("\nwhat it printed\n") == 3
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    ran = (folder / "ran").read_text().split()
    assert sorted(ran) == sorted(f"{name}-{number}" for name in FILES for number in range(20))
    assert 1 <= len(list(folder.glob("*.ended"))) <= 2


def test_a_stream_that_ends_by_itself_fails_the_run_and_names_its_last_test(folder: Path) -> None:
    done = run(folder, GREEN="1", ENDS="test_b.py")
    assert "ended with 7, at or after test_b.py::test_ends_its_process" in done.stdout
    assert done.returncode == pytest.ExitCode.INTERNAL_ERROR


def test_an_error_outside_of_a_test_is_shown(folder: Path) -> None:
    done = run(folder, GREEN="1", EXITS="test_b.py")
    assert "Exit: enough" in done.stdout
    assert done.returncode == pytest.ExitCode.INTERNAL_ERROR


def test_no_further_unit_begins_after_the_failures_that_a_person_allows(folder: Path) -> None:
    done = run(folder, "--maxfail=1")
    assert "stopping after" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert len((folder / "ran").read_text().split()) < len(FILES) * 20


def test_folders_whose_tests_share_a_server_of_their_own_are_one_unit() -> None:
    assert unit_of("tests/pipeline/test_query.py::test_x[a]") == "tests/pipeline/"
    assert unit_of("tests/unit/log/test_codec.py::test_x") == "tests/unit/log/test_codec.py"
