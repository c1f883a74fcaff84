"""Files of a commit that failed. Iceberg's objects are made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest

from app.pipeline import history
from app.pipeline.archive import commit
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
    with pytest.raises(JavaError):
        make([DataFile("events", "file:///lake/new.parquet")])
    assert table.io.return_value.deleteFile.called is removed
