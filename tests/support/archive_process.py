"""Run the archive job in a process that kills itself and its JVM at a named moment.

::

    python archive_process.py FOLDER SERVERS TOPIC MAX_RECORDS MOMENT NTH

MOMENT is one that the archive reports, or one of ``SEEN_FROM_OUTSIDE``, or ``none`` for a whole
run. The moments seen from outside happen inside Spark. This process detects them in the table's
files and in the catalog.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path

import spark_install
from app.pipeline.archive import run
from app.spark.session import open_session
from app.spark.settings import SparkEngine
from lake_folders import lake_in, plan_for
from spark_session import JVM


def die() -> None:
    """Kill the whole process group with SIGKILL. The JVM belongs to this group, so it dies at once
    too."""
    os.killpg(0, signal.SIGKILL)


class KillAtSight(threading.Thread):
    """A thread that kills the process at the ``nth`` occurrence of a moment that the archive does
    not report.
    """

    def __init__(self, folder: Path, moment: str, nth: int) -> None:
        super().__init__(daemon=True)
        self._folder, self._moment, self._nth = folder, moment, nth

    def run(self) -> None:
        if self._moment == "at random":
            time.sleep(random.Random(self._nth).uniform(1, 20))
            die()
        look = {"raw files written": self._files, "raw committed": self._commits}[self._moment]
        begun = look()
        while look() < begun + self._nth:
            time.sleep(0.001)
        die()

    def _files(self) -> int:
        """Return the count of data files of the raw table. The files exist before the commit that
        adds them to the table."""
        return sum(1 for _ in (self._folder / "skybridge" / "events_raw").glob("data/**/*.parquet"))

    def _commits(self) -> int:
        """Return the number of the table's current metadata file, which the catalog's row names.

        The commit changes that row; Spark writes its own checkpoint afterwards.
        """
        with sqlite3.connect(f"file:{self._folder}/catalog.db?mode=ro", uri=True) as catalog:
            query = "SELECT metadata_location FROM iceberg_tables WHERE table_name = 'events_raw'"
            try:
                rows = catalog.execute(query).fetchall()
            except sqlite3.OperationalError:
                return 0
        return int(Path(rows[0][0]).name.partition("-")[0]) if rows else 0


class KillAtReport:
    """A callback that kills the process when the archive reports a moment for the ``nth`` time."""

    def __init__(self, moment: str, nth: int) -> None:
        self._moment, self._left = moment, nth

    def __call__(self, moment: str) -> None:
        print(moment, flush=True)
        if moment == self._moment:
            self._left -= 1
            if not self._left:
                die()


SEEN_FROM_OUTSIDE = ("raw files written", "raw committed", "at random")


def main(folder: str, servers: str, topic: str, most: str, moment: str, nth: str) -> None:
    lake = lake_in(Path(folder))
    conf = {
        "spark.jars": ",".join(map(str, spark_install.install())),
        "spark.driver.extraJavaOptions": JVM,
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": f"{folder}-scratch",
    }
    session = open_session(SparkEngine("local[2]", "1g", conf), lake.catalog, app_name="killed")
    if moment in SEEN_FROM_OUTSIDE:
        KillAtSight(Path(folder), moment, int(nth)).start()
    plan = plan_for(lake, servers, topic, most=int(most))
    outcome = run.once(session, lake, plan, observe=KillAtReport(moment, int(nth)))
    print(outcome, flush=True)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
