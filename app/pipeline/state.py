"""The state of the lake, read from the metadata of Iceberg: no row is read and no Java is needed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from app.model.far_times import time_or_text
from app.pipeline import tables
from app.pipeline.query.opening import open_table, reading
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table


class LakeState(msgspec.Struct, frozen=True):
    """The numbers of rows in the tables of a lake.

    Attributes:
        records: The number of rows in ``events_raw``.
        events: The number of rows in ``events``.
        quarantined: The number of rows in ``quarantine``.
        latest: The broker's time of the newest record, as text if Python cannot hold it; None if
            there is no record.
    """

    records: int
    events: int
    quarantined: int
    latest: datetime | str | None


def state(lake: Lake) -> LakeState:
    """Return the state of a lake.

    Raises:
        SetupError: The lake does not exist, or PyIceberg cannot read it.
        LakeUnavailable: The catalog or the storage does not answer.
    """
    with reading():
        raw = open_table(lake, tables.RAW_TABLE)
        return LakeState(
            records=_rows(raw),
            events=_rows(open_table(lake, tables.EVENTS_TABLE)),
            quarantined=_rows(open_table(lake, tables.QUARANTINE_TABLE)),
            latest=_latest(raw),
        )


def derived_progress(table: Table) -> tables.Progress | None:
    """Return the progress of a table that is derived from ``events_raw``; None if no snapshot
    carries one.
    """
    from pyiceberg.table.snapshots import ancestors_of  # noqa: PLC0415 - heavy, and an extra

    for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
        if snapshot.summary is not None and (text := snapshot.summary[tables.PROGRESS_PROPERTY]):
            return tables.progress_of(text)
    return None


def _rows(table: Table) -> int:
    """Return the number of rows of a table, less those that delete files mark as deleted."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    total, deleted = map(snapshot.summary.__getitem__, ("total-records", "total-position-deletes"))
    return int(total or 0) - int(deleted or 0)


def _latest(table: Table) -> datetime | str | None:
    """Return the newest record time of a table, from the statistics of the files of its newest day."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return None
    column = table.schema().find_field("record_time").field_id
    bounds = [
        entry.data_file.upper_bounds[column]
        for manifest in _newest(snapshot.manifests(table.io))
        for entry in manifest.fetch_manifest_entry(table.io)
        if column in entry.data_file.upper_bounds
    ]
    if not bounds:
        return None
    return time_or_text(max(map(_integer, bounds)))


def _newest(manifests: list[ManifestFile]) -> list[ManifestFile]:
    """Return the manifests that contain the newest day. A lake of several years has thousands of other manifests."""
    days = [(_last_day(each), each) for each in manifests]
    last = max((day for day, _ in days), default=0)
    return [each for day, each in days if day == last]


def _last_day(manifest: ManifestFile) -> int:
    """Return the newest day of a manifest, in days since 1970. ``events_raw`` has no partition
    field but that day.
    """
    for each in manifest.partitions or ():
        if each.upper_bound is not None:
            return _integer(each.upper_bound)
    return 0


def _integer(bound: bytes) -> int:
    """Decode a bound of Iceberg: an integer of days or microseconds since 1970."""
    return int.from_bytes(bound, "little", signed=True)
