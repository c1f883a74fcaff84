"""The archive as a process of its own that dies, with its JVM, at a named moment.

::

    python archive_process.py FOLDER SERVERS TOPIC MOST MOMENT NTH

MOMENT is one that the archive tells of itself, or one of those below, which happen inside Spark and are
seen from outside: by the files of the table and by the row of its catalog. ``none``: it runs to its end.
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
from app.pipeline.session import open_session
from app.pipeline.settings import Engine
from lake_house import lake_in, plan_for
from spark_session import JVM


def die() -> None:
    """The whole group: the JVM has no time for anything either."""
    os.killpg(0, signal.SIGKILL)


class Watch(threading.Thread):
    """Dies at the ``nth`` sight of a moment that the archive cannot tell of."""

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
        """Data files, each there before its commit."""
        return sum(1 for _ in (self._folder / "skybridge" / "events_raw").glob("data/**/*.parquet"))

    def _commits(self) -> int:
        """The catalog's row moves in the commit; Spark's own checkpoint comes after it."""
        with sqlite3.connect(f"file:{self._folder}/catalog.db?mode=ro", uri=True) as catalog:
            query = "SELECT metadata_location FROM iceberg_tables WHERE table_name = 'events_raw'"
            try:
                rows = catalog.execute(query).fetchall()
            except sqlite3.OperationalError:
                return 0
        return int(Path(rows[0][0]).name.partition("-")[0]) if rows else 0


class Moments:
    """Dies at the ``nth`` time that the archive tells of a moment."""

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
    session = open_session(Engine("local[2]", "1g", conf), lake, app_name="killed")
    if moment in SEEN_FROM_OUTSIDE:
        Watch(Path(folder), moment, int(nth)).start()
    plan = plan_for(lake, servers, topic, most=int(most))
    outcome = run.once(session, lake, plan, observe=Moments(moment, int(nth)))
    print(outcome, flush=True)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
