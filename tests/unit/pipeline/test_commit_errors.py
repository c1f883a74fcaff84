"""Files of a commit that failed. Iceberg's objects are made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest

from app.pipeline import history
from app.pipeline.archive import commit, progress
from app.pipeline.archive.files import DataFile
from app.pipeline.history import Snapshot
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
    fenced = table.newRowDelta.return_value.validateFromSnapshot.return_value
    added = fenced.conflictDetectionFilter.return_value.validateNoConflictingDataFiles
    for change in (added, table.newRewrite.return_value.validateFromSnapshot):
        change.return_value.commit.side_effect = wrapped(error)
    monkeypatch.setattr(history, "iceberg_table", lambda *_: table)
    monkeypatch.setattr(commit, "data_files", lambda *_: [])
    monkeypatch.setattr(history, "snapshots_of", lambda _: iter(()))
    monkeypatch.setattr(commit, "jvm", MagicMock())
    with pytest.raises(JavaError):
        make([DataFile("events", "file:///lake/new.parquet")])
    assert table.io.return_value.deleteFile.called is removed


@pytest.mark.parametrize("made", [True, False])
def test_a_commit_of_unknown_state_is_known_by_its_id(
    made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The progress does not tell whether it was made (ADR 0063): a redrive states that of the commit
    before, and would then remove records from ``quarantine`` whose events ``events`` lacks."""
    table, ends, stated = MagicMock(), {"main": {"orders": {0: 9}}}, dict[str, str]()
    before = Snapshot(1, None, 0, "append", {progress.PROPERTY: progress.as_text(ends)})
    unknown = throwable(f"{ICEBERG}CommitStateUnknownException")
    change = table.newFastAppend.return_value
    change.set.side_effect = stated.__setitem__
    table.operations.return_value.commit.side_effect = wrapped(unknown)
    monkeypatch.setattr(history, "iceberg_table", lambda *_: table)
    monkeypatch.setattr(commit, "data_files", lambda *_: [])
    after = Snapshot(2, 1, 0, "append", stated)
    there = [after, before] if made else [before]
    monkeypatch.setattr(history, "snapshots_of", lambda _: iter(there))
    if made:
        assert commit.append(MagicMock(), "lake.a.events", [], ends).id == after.id
        return
    with pytest.raises(JavaError):
        commit.append(MagicMock(), "lake.a.events", [], ends)
