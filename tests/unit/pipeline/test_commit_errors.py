"""Files of a commit that failed. Iceberg's objects are made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest

from app.pipeline import history
from app.pipeline.archive import commit, progress
from app.pipeline.archive.files import DataFile
from java_throwables import JavaError, throwable, wrapped

ICEBERG = "org.apache.iceberg.exceptions."
REFUSED = throwable(f"{ICEBERG}CommitFailedException")


@pytest.mark.parametrize(
    ("error", "removed"),
    [
        (REFUSED, True),
        (throwable(f"{ICEBERG}ValidationException"), True),
        (throwable(f"{ICEBERG}CommitStateUnknownException", cause=REFUSED), False),
        (throwable("org.apache.iceberg.jdbc.UncheckedSQLException"), False),
        (throwable("java.net.SocketTimeoutException"), False),
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        lambda added: commit.append(MagicMock(), "lake.a.events", added, {}),
        lambda added: commit.replace(MagicMock(), "lake.a.events", [], added, 7),
    ],
)
def test_files_are_removed_only_if_no_snapshot_can_name_them(
    make: Callable[[list[DataFile]], Any],
    error: Any,
    removed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MUST (Iceberg, CleanableFailure): after other errors, the commit may have been made. So it is if
    the connection to a catalog's database ends after the database has stored the commit."""
    table = MagicMock()
    for change in (table.newAppend, table.newRewrite.return_value.validateFromSnapshot):
        change.return_value.commit.side_effect = wrapped(error)
    monkeypatch.setattr(history, "iceberg_table", lambda *_: table)
    monkeypatch.setattr(commit, "data_files", lambda *_: [])
    monkeypatch.setattr(progress, "stored", lambda *_: {"main": {"another": {0: 1}}})
    with pytest.raises(JavaError):
        make([DataFile("events", "file:///lake/new.parquet")])
    assert table.io.return_value.deleteFile.called is removed


def test_a_commit_of_unknown_state_that_the_table_has_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The progress that a snapshot states tells whether it was made (ADR 0063)."""
    table, ends = MagicMock(), {"main": {"orders": {0: 9}}}
    unknown = throwable(f"{ICEBERG}CommitStateUnknownException")
    table.newFastAppend.return_value.commit.side_effect = wrapped(unknown)
    monkeypatch.setattr(history, "iceberg_table", lambda *_: table)
    monkeypatch.setattr(commit, "data_files", lambda *_: [])
    monkeypatch.setattr(progress, "stored", lambda *_: ends)
    monkeypatch.setattr(history, "changes_of", lambda _: iter(["the snapshot"]))
    assert commit.append(MagicMock(), "lake.a.events", [], ends) == "the snapshot"  # type: ignore[comparison-overlap]
