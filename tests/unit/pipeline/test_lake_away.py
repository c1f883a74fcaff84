"""A catalog or a storage that does not answer, without Java: known by the classes of the clients' errors."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import requests
from pyiceberg.exceptions import ServiceUnavailableError, UnauthorizedError, ValidationError

from app.cli import exits
from app.errors import LakeUnavailable, SetupError
from app.pipeline import state
from app.pipeline.query import duck, opening
from app.pipeline.settings import Lake
from app.spark.settings import LakeCatalog

S3 = OSError("When reading information for key 'x' in bucket 'b': AWS Error NETWORK_CONNECTION")


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (S3, True),  # Arrow has no class for it, and no number
        (requests.exceptions.ConnectionError("refused"), True),
        (ServiceUnavailableError("503"), True),
        (UnauthorizedError("401"), True),
        (psycopg.OperationalError("refused"), True),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (FileNotFoundError("metadata.json"), False),
        (PermissionError(errno.EACCES, "/lake"), False),
        (ValidationError("format 4"), False),
    ],
)
def test_no_answer_is_known_by_its_class(error: Exception, away: bool) -> None:
    found = opening.away_fault(error)
    assert (found is not None) is away
    if found is not None:
        assert exits.code_of(found) == exits.UNREACHABLE


def test_a_storage_that_is_away_while_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB reports the error of a file as an error of the SQL."""
    table: Any = SimpleNamespace(fault=S3)
    with pytest.raises(LakeUnavailable, match="NETWORK_CONNECTION"):
        duck._demand_read({"events": table})

    def fail() -> None:
        raise S3

    inspected: Any = SimpleNamespace(inspect=SimpleNamespace(files=fail), current_snapshot=fail)
    monkeypatch.setattr(duck, "open_table", lambda *_: inspected)
    monkeypatch.setattr(state, "open_table", lambda *_: inspected)
    lake = Lake(LakeCatalog("rest", "http://127.0.0.1:9", "s3://lake"))
    with pytest.raises(LakeUnavailable, match="NETWORK_CONNECTION"):
        duck.ask(lake, "SELECT * FROM events_files", limit=1)
    with pytest.raises(LakeUnavailable, match="NETWORK_CONNECTION"):
        state.state(lake)


@pytest.mark.parametrize(
    "error", [OverflowError("date value out of range"), ValueError("no snapshot")]
)
def test_metadata_that_cannot_be_shown_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg shows the least and greatest day of a manifest as a day of Python."""

    def fail() -> None:
        raise error

    table = SimpleNamespace(inspect=SimpleNamespace(manifests=fail))
    monkeypatch.setattr(duck, "open_table", lambda *_: table)
    lake = Lake(LakeCatalog("rest", "http://127.0.0.1:9", "s3://lake"))
    with pytest.raises(SetupError, match="events_manifests cannot be made"):
        duck.ask(lake, "SELECT * FROM events_manifests", limit=1)
