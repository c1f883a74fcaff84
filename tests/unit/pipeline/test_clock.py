"""Clocks of several machines that write to a lake."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import SetupError
from app.pipeline import history
from app.pipeline.history import Snapshot


@pytest.mark.parametrize(("behind", "refused"), [(0, False), (59, False), (61, True)])
def test_a_clock_by_which_iceberg_makes_no_commit_is_told(
    behind: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = Snapshot(1, None, 1_000_000, "append", {})
    monkeypatch.setattr(history, "newest_snapshot", lambda *_: newest)
    session: Any = None
    if not refused:
        history.demand_clock(session, "lake.skybridge.events_raw", lambda: 1_000 - behind)
        return
    with pytest.raises(SetupError, match="61 seconds earlier") as told:
        history.demand_clock(session, "lake.skybridge.events_raw", lambda: 1_000 - behind)
    assert "NTP" in told.value.cure


def test_a_table_without_a_commit_has_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "newest_snapshot", lambda *_: None)
    session: Any = None
    history.demand_clock(session, "lake.skybridge.events_raw", lambda: 0.0)
