"""Servers of a run: one for all, and none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import shared_servers
from postgres_server import install
from skipping import skip_or_fail
from waiting import wait_until

pytestmark = pytest.mark.postgres

WITHIN = 240.0
PROGRAM = """
import sys
from shared_servers import RunOfTests, shared_server
run = RunOfTests()
print(*shared_server("postgres"), flush=True)
print(*shared_server("postgres"), flush=True)
sys.stdin.readline()
run.end()
"""


@pytest.fixture(autouse=True)
def there():
    try:
        install()
    except shared_servers.Missing as missing:
        skip_or_fail(missing)


def answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn, connect_timeout=10).close()
    except psycopg.OperationalError:
        return False
    return True


def begun() -> tuple[subprocess.Popen[bytes], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    first, second = (process.stdout.readline().decode().strip() for _ in range(2))
    assert first == second
    assert answers(first)
    return process, first


def test_a_run_that_ends_has_stopped_its_servers():
    """When it says that it is over, and its folder is gone."""
    process, dsn = begun()
    process.communicate(b"\n", WITHIN)
    assert process.returncode == 0
    assert not answers(dsn)


def test_a_server_may_stop_before_the_run_and_starts_again(monkeypatch):
    """Pulsar takes three hundredths of a core while nobody asks it."""
    monkeypatch.setenv(shared_servers.RUN, "")  # set back afterwards
    run = shared_servers.RunOfTests()
    try:
        (first,) = shared_servers.shared_server("postgres")
        run.stop("postgres")
        wait_until(lambda: not answers(first), "the server gone", WITHIN)
        run.stop("postgres")
        (second,) = shared_servers.shared_server("postgres")
        assert answers(second)
    finally:
        run.end()
    assert not answers(second)


def test_a_run_that_is_killed_leaves_no_server_behind():
    """A laptop after a hundred interrupted runs has no hundred servers."""
    process, dsn = begun()
    with process:
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not answers(dsn), "the server gone", WITHIN)


def test_what_a_keeper_cannot_start_is_told(monkeypatch, tmp_path: Path):
    """Whoever asks sees the words of the server, and not that somebody hung up."""
    monkeypatch.setenv(shared_servers.RUN, str(tmp_path))
    (tmp_path / "postgres.json").write_text('{"missing": "no initdb"}')
    with pytest.raises(shared_servers.Missing, match="no initdb"):
        shared_servers.shared_server("postgres")
