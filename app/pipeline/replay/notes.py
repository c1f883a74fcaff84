"""The plan and the progress of a replay, stored in ``replay-ID/plan.json`` and ``done.json``.

The files are on this machine, or in any storage that Hadoop's file systems support.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from app.errors import SetupError
from app.pipeline.replay.plan import LakeReplayPlan
from app.pipeline.settings import folder_of
from app.spark.session import read_file, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAN, DONE = "plan.json", "done.json"


class ReplayProgress(msgspec.Struct, frozen=True):
    """The progress of a replay.

    Attributes:
        slices: The number of finished slices.
        records: The number of records done in the next slice.
        size: The number of records in that slice; 0 if it was not begun.
        read: The number of records done in all slices.
        refused: The number of refused records by error code.
    """

    slices: int = 0
    records: int = 0
    size: int = 0
    read: int = 0
    refused: Mapping[str, int] = {}


class ReplayNotes:
    """The stored plan and progress of one replay. ``folder`` is the URI of the folder of all
    replays.
    """

    def __init__(self, spark: SparkSession, folder: str, name: str) -> None:
        self._spark = spark
        self._folder = f"{folder.rstrip('/')}/replay-{name}"
        here = folder_of(folder)
        self._here = None if here is None else here / f"replay-{name}"

    def begin(self, plan: LakeReplayPlan) -> None:
        """Store a new plan and reset the progress."""
        self.note(ReplayProgress())
        self._write(PLAN, msgspec.json.encode(plan))

    def plan(self) -> LakeReplayPlan:
        """Return the stored plan.

        Raises:
            SetupError: There is no replay with this id.
        """
        text = self._read(PLAN)
        if text is None:
            raise SetupError(
                f"there is no replay in {self._folder}",
                setting="--resume",
                cure="give the id that the replay printed at its start",
            )
        return msgspec.json.decode(text, type=LakeReplayPlan)

    def done(self) -> ReplayProgress:
        return msgspec.json.decode(self._read(DONE) or b"{}", type=ReplayProgress)

    def note(self, done: ReplayProgress) -> None:
        self._write(DONE, msgspec.json.encode(done))

    def _write(self, name: str, text: bytes) -> None:
        if self._here is None:
            # a remote storage shows an object only when it is complete
            write_file(self._spark, f"{self._folder}/{name}", text)
            return
        self._here.mkdir(parents=True, exist_ok=True)
        new = self._here / f"{name}.new"
        new.write_bytes(text)
        new.replace(self._here / name)

    def _read(self, name: str) -> bytes | None:
        if self._here is None:
            return read_file(self._spark, f"{self._folder}/{name}")
        try:
            return (self._here / name).read_bytes()
        except FileNotFoundError:
            return None
