"""A small lake for report and query, with an independent account of its content.

The rows are appended to the three tables as the archive leaves them, without Kafka and decoding, which
have tests of their own. The account is kept while the rows are made, without code of the pipeline.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f

from app.pipeline import tables
from app.pipeline.archive import progress
from app.pipeline.settings import Lake
from lake_folders import lake_in, session_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGIN = datetime(2026, 11, 20, 10, tzinfo=UTC)
MIDDLE = BEGIN + timedelta(hours=1)
END = BEGIN + timedelta(hours=2)
HOT = b"customer-0"
FAR = 1_795_000_000_000_000_000
"""Microseconds since 1970 that a producer sent as milliseconds: a time of the year 58851."""

LATE = "com.example.refund"
"""A type that first occurs in the second hour."""

ORDER = "com.example.order"
"""A type whose data changes after the first hour."""

WAITING = 3
PROGRESS = f"snapshot-property.{progress.PROPERTY}"

Record = dict[str, Any]

_TIME = pa.timestamp("us", "UTC")
_LOCATION = [
    ("broker", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
    ("record_time", _TIME), ("key", pa.binary()),
]  # fmt: skip
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TEXTS = ("specversion", "id", "source", "type", "data", "data_form", "content_mode")
_RAW = pa.schema([*_LOCATION, ("value", pa.binary()), ("headers", _HEADERS)])
_EVENTS = pa.schema(
    [*_LOCATION, *((name, pa.string()) for name in _TEXTS), ("time", _TIME),
     ("extensions", pa.map_(pa.string(), pa.string()))]
)  # fmt: skip
_QUARANTINE = pa.schema(
    [*_LOCATION, ("value", pa.binary()), ("verdict", pa.string()), ("rule", pa.string()),
     ("detail", pa.string()), ("seen", _TIME), ("headers", _HEADERS)]
)  # fmt: skip


@dataclass
class LakeAccount:
    """The values that a report must show."""

    records: int = 0
    invalid: int = 0
    duplicates: int = 0
    types: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    keys: Counter[bytes | None] = field(default_factory=Counter)
    delays: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    ids: list[tuple[str, str, str]] = field(default_factory=list)
    """The (source, id, type) of every event, in order."""

    @property
    def events(self) -> int:
        return self.types.total()


@dataclass
class FilledLake:
    """A lake with its Spark session and its account."""

    session: SparkSession
    lake: Lake
    account: LakeAccount


def fill_lake(folder: Path, count: int = 400, *, far: bool = False) -> FilledLake:
    """Fill a lake with ``count`` records, plus ``WAITING`` records that are not yet decoded.

    With ``far``, one more event and one more record in quarantine, which decodes now, have a time of the year 58851.

    It uses the Spark session of the fixture ``spark``.
    """
    lake = lake_in(folder)
    session = session_of(lake)
    tables.make(session, lake)
    account = LakeAccount()
    rows = records(count, account)
    if far:
        _add_far(rows, count, account)
    behind = waiting(account.records)
    identity = f.xxhash64("source", "id")
    _append(session, lake, tables.RAW_TABLE, _frame(session, rows.raw + behind, _RAW))
    events = _frame(session, rows.events, _EVENTS).withColumn("identity", identity)
    _append(session, lake, tables.EVENTS_TABLE, events)
    ends = progress.as_text(progress.reach(_frame(session, rows.raw, _RAW)))
    quarantine = _frame(session, rows.quarantine, _QUARANTINE)
    _append(session, lake, tables.QUARANTINE_TABLE, quarantine, **{PROGRESS: ends})
    return FilledLake(session, lake, account)


def _frame(session: SparkSession, rows: list[Record], schema: pa.Schema) -> DataFrame:
    return session.createDataFrame(pa.Table.from_pylist(rows, schema))


def _append(session: SparkSession, lake: Lake, name: str, frame: DataFrame, **options: str) -> None:
    columns = session.createDataFrame([], tables.COLUMNS[name]).schema
    writer = frame.to(columns).writeTo(lake.table(name)).options(**options)
    writer.option("fanout-enabled", "true").append()


@dataclass
class LakeRows:
    """The rows of each table."""

    raw: list[Record] = field(default_factory=list)
    events: list[Record] = field(default_factory=list)
    quarantine: list[Record] = field(default_factory=list)


def records(count: int, account: LakeAccount, seed: int = 7) -> LakeRows:
    """Return records that are spread evenly over two hours, and add them to the account.

    One in twenty is a duplicate, one in fifty is invalid. There is a hot key, a new type, and data that
    changes its form.
    """
    chance = random.Random(seed)
    rows = LakeRows()
    for n in range(count):
        at = BEGIN + timedelta(seconds=7200 * n / count)
        key = HOT if chance.random() < 0.3 else f"customer-{chance.randrange(1, 40)}".encode()
        size = len(_add(rows, n, at, key, chance, account))
        account.records += 1
        account.keys[key] += 1
        account.sizes.append(size)
    return rows


def waiting(count: int) -> list[Record]:
    """Return records that follow all other records, in the same two hours, and are not yet decoded."""
    return [
        {
            **_place(count + n),
            "record_time": END - timedelta(seconds=1),
            "key": b"w",
            "value": b"{}",
        }
        for n in range(WAITING)
    ]


def _add(
    rows: LakeRows, n: int, at: datetime, key: bytes, chance: random.Random, account: LakeAccount
) -> bytes:
    """Add one record to the tables and the account, and return its value."""
    here = {**_place(n), "record_time": at, "key": key}
    kind = chance.random()
    value = b"{}"
    if kind < 0.02:
        account.invalid += 1
        broken = {
            "verdict": "invalid",
            "rule": "missing-attribute",
            "detail": "source: is required",
        }
        rows.quarantine.append({**here, "value": value, **broken, "seen": at})
    elif kind < 0.07 and n > 9:
        account.duplicates += 1
    else:
        value = _event(rows, n, at, here, chance, account)
    rows.raw.append({**here, "value": value, "headers": []})
    return value


def _event(
    rows: LakeRows, n: int, at: datetime, here: Record, chance: random.Random, account: LakeAccount
) -> bytes:
    late = [LATE] if at >= MIDDLE else []
    type_ = chance.choice([ORDER, ORDER, "com.example.paid", *late])
    source, name, delay = f"/shop/{n % 5}", f"n-{n}", chance.randrange(1, 3000)
    account.ids.append((source, name, type_))
    account.types[type_] += 1
    account.sources[source] += 1
    account.delays.append(delay / 1000)
    data = json.dumps(_data(n, type_, at, chance))
    decoded = {"specversion": "1.0", "id": name, "source": source, "type": type_}
    time = at - timedelta(milliseconds=delay)
    form = {"data": data, "data_form": "json", "extensions": [], "content_mode": "binary"}
    rows.events.append({**here, **decoded, "time": time, **form})
    return data.encode()


def _add_far(rows: LakeRows, count: int, account: LakeAccount) -> None:
    for n in (count, count + 1):
        rows.raw.append(
            {**_place(n), "record_time": FAR, "key": HOT, "value": b"{}", "headers": []}
        )
    event = {"specversion": "1.0", "id": "far", "source": "/far", "type": "com.example.far"}
    form = {"data": "{}", "data_form": "json", "extensions": [], "content_mode": "binary"}
    here = {"record_time": FAR, "key": HOT}
    rows.events.append({**_place(count), **here, **event, "time": FAR, **form})
    again = json.dumps(
        {"specversion": "1.0", "id": "again", "source": "/far", "type": "far"}
    ).encode()
    headers = [{"key": "content-type", "value": b"application/cloudevents+json"}]
    broken = {
        "value": again,
        "headers": headers,
        "verdict": "invalid",
        "rule": "far",
        "seen": BEGIN,
    }
    rows.quarantine.append({**_place(count + 1), **here, **broken})
    account.records += 2
    account.invalid += 1
    account.types["com.example.far"] += 1


def _place(n: int) -> Record:
    return {"broker": "main", "topic": "orders", "partition": n % 2, "offset": n // 2}


def _data(n: int, type_: str, at: datetime, chance: random.Random) -> dict[str, Any]:
    if type_ != ORDER:
        return {"n": n}
    old = at < MIDDLE
    data: dict[str, Any] = {"n": n, "amount": n if old else f"{n}.00"}
    return data | ({"coupon": None} if old else {"lines": [{"sku": f"S{chance.randrange(9)}"}]})
