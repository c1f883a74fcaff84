"""What an erasure asks of Iceberg. What it leaves: tests/pipeline/test_archive.py, test_verbs.py."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from app.pipeline import erase, history
from app.pipeline.history import Snapshot
from app.pipeline.settings import Lake
from app.spark.settings import LakeCatalog

LAKE = Lake(LakeCatalog("jdbc", "jdbc:sqlite:/lake/catalog.db", "file:///lake"))


def test_a_snapshot_of_a_clock_that_is_ahead_goes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest snapshot is ours, the one before it was made by a machine whose clock is a second ahead."""
    java = MagicMock()
    monkeypatch.setattr(erase, "jvm", lambda _: java)
    monkeypatch.setattr(history, "iceberg_table", MagicMock())
    made = (5_000, 6_000, 1_000)
    kept = [Snapshot(n, n - 1, at, "append", {}) for n, at in enumerate(made)]
    monkeypatch.setattr(history, "snapshots", lambda *_: iter(kept))
    erase._remove_old_files(MagicMock(), LAKE, "events", 1)
    expiring = java.org.apache.iceberg.spark.actions.SparkActions.get.return_value.expireSnapshots
    [(edge,), _] = expiring.return_value.expireOlderThan.call_args
    assert edge > max(made)
