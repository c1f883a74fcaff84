"""Write an embedded log in format 2, in which groups have no time of their last use.

The log has one topic with one segment of three records from offset 40. One group has read the first
record, and an idempotent producer sent the last.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from app.log.codec import encode_rows, fields_of
from app.log.database import APPLICATION_ID, FILE
from log_steps import numbered

CLUSTER = "bGlrZSBhIHV1aWQsIGJ1dA"
FIRST = 40
TIME_MS = 5_000

_TABLES = """
PRAGMA journal_mode = wal;
CREATE TABLE topics(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, partitions INTEGER NOT NULL) STRICT;
CREATE TABLE segments(
  id INTEGER PRIMARY KEY, topic INTEGER NOT NULL, partition INTEGER NOT NULL,
  base_offset INTEGER NOT NULL, end_offset INTEGER NOT NULL, bytes INTEGER NOT NULL,
  last_ms INTEGER NOT NULL) STRICT;
CREATE TABLE groups(
  name TEXT PRIMARY KEY, generation INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE positions(
  "group" TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
  next_offset INTEGER NOT NULL, metadata TEXT NOT NULL,
  PRIMARY KEY("group", topic, partition)) STRICT, WITHOUT ROWID;
CREATE TABLE declared(
  "group" TEXT NOT NULL, topic TEXT NOT NULL, drop_unread INTEGER NOT NULL,
  PRIMARY KEY("group", topic)) STRICT, WITHOUT ROWID;
CREATE TABLE producers(
  id INTEGER NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, epoch INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, batches TEXT NOT NULL,
  PRIMARY KEY(id, topic, partition)) STRICT, WITHOUT ROWID;
CREATE TABLE identity(name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE s1(base_offset INTEGER PRIMARY KEY, count INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, checksum INTEGER NOT NULL, records BLOB NOT NULL) STRICT;
"""

_ROWS = f"""
INSERT INTO topics VALUES(1, 't', 1);
INSERT INTO segments VALUES(1, 1, 0, {FIRST}, {FIRST + 3}, 0, {TIME_MS});
INSERT INTO groups VALUES('readers', 7), ('nobody', 2);
INSERT INTO positions VALUES('readers', 't', 0, {FIRST + 1}, 'f1:1');
INSERT INTO producers VALUES(11, 't', 0, 0, {TIME_MS}, '[[4,1,{FIRST + 2}]]');
INSERT INTO identity VALUES('cluster', '{CLUSTER}'), ('producer-id', 11);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = 2;
"""


def write(folder: Path) -> None:
    db = apsw.Connection(str(folder / FILE))
    db.execute(_TABLES).fetchall()  # all of its rows, because a pragma returns some
    db.execute(_ROWS).fetchall()
    records = [fields_of(record) for record in numbered(0, 1, 2)]
    db.executemany("INSERT INTO s1 VALUES(?, ?, ?, ?, ?)", encode_rows(FIRST, TIME_MS, records))
    db.close()
