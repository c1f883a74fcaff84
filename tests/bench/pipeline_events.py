"""Events of 1 kB in the mix that the decoder is measured with, as records of a Kafka topic."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from app.bindings.kafka import encode
from app.bindings.record import ContentMode, Decoded, Record
from app.bindings.transcode import EncodeOptions
from app.event.convert import as_version
from app.event.value import CloudEvent, DataForm

BASE = 20_000  # distinct events; more are made by repeating these
_SEED = 8
_DOCUMENT = (("content-type", b"application/cloudevents+json; charset=UTF-8"),)
_BINARY, _JSON = ContentMode.BINARY, DataForm.JSON
_SCHEMA = pa.schema(
    [
        ("broker", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("record_time", pa.timestamp("us", "UTC")), ("key", pa.binary()), ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)  # fmt: skip


def _data(chance: random.Random) -> bytes:
    """An order, about 750 bytes: names, prices as 1.10, a list of objects, some text beyond ASCII."""
    lines = [
        {"sku": f"SKU-{chance.randrange(10**6):06}", "count": chance.randrange(1, 9),
         "price": f"@{chance.randrange(1, 999)}.{chance.randrange(10)}0@", "gift": chance.random() < 0.1}
        for _ in range(6)
    ]  # fmt: skip
    order = {
        "order": chance.randrange(10**9),
        "customer": {"name": "Jørgen Müller", "mail": f"j{chance.randrange(10**5)}@example.com", "vip": None},
        "lines": lines,
        "note": "leave it at the door\nring twice; " + "the dog is kind, " * chance.randrange(8, 16),
    }  # fmt: skip
    text = json.dumps(order, ensure_ascii=False, separators=(",", ":"))
    return text.replace('"@', "").replace('@"', "").encode()


def _attributes(n: int, chance: random.Random) -> dict[str, str]:
    given = {
        "specversion": "1.0",
        "id": f"{chance.getrandbits(128):032x}",
        "source": f"/shops/{chance.randrange(40)}/tills/{n % 7}",
        "type": f"com.example.order.{('placed', 'paid', 'sent')[n % 3]}",
        "time": f"2026-11-20T10:{n % 60:02}:{n // 60 % 60:02}.{n % 1000:03}Z",
        "datacontenttype": "application/json",
    }
    if n % 2:
        given["subject"] = f"orders/{n}"
    if n % 3 == 0:
        given["traceparent"] = f"00-{chance.getrandbits(128):032x}-{chance.getrandbits(64):016x}-01"
    return given


def _event(n: int, chance: random.Random) -> CloudEvent:
    return CloudEvent(_attributes(n, chance), _data(chance), _JSON)


def _written(mode: Any, version: str = "1.0") -> Callable[[int, random.Random], Record]:
    def make(n: int, chance: random.Random) -> Record:
        event = as_version(_event(n, chance), version)
        return encode(Decoded(event, _BINARY), EncodeOptions(mode=mode), b"k%d" % (n % 50))

    return make


def _document(text: bytes) -> Record:
    return Record(None, _DOCUMENT, text)


def _data_in_the_middle(n: int, chance: random.Random) -> Record:
    """As Go's SDK writes it: extensions follow the data."""
    event = _event(n, chance)
    head = json.dumps(dict(event.attributes), separators=(",", ":")).encode()[:-1]
    return _document(
        head + b',"data":' + (event.data or b"") + b',"partitionkey":"p","sequence":5}'
    )


def _pretty(n: int, chance: random.Random) -> Record:
    event = _event(n, chance)
    both = {**event.attributes, "flag": True, "data": json.loads(event.data or b"")}
    return _document(json.dumps(both, indent=2, ensure_ascii=False).encode())


def _base64(n: int, chance: random.Random) -> Record:
    event = _event(n, chance)
    both = {**event.attributes, "datacontenttype": "application/octet-stream",
            "data_base64": b64encode(chance.randbytes(600)).decode()}  # fmt: skip
    return _document(json.dumps(both).encode())


def _broken(n: int, chance: random.Random) -> Record:
    record = _written("binary")(n, chance)
    return Record(record.key, record.headers[1:], record.body)


MIX: dict[str, tuple[int, Callable[[int, random.Random], Record]]] = {
    "binary 1.0": (60, _written("binary")),
    "structured 1.0, data last": (15, _written("structured")),
    "structured 1.0, data in the middle": (5, _data_in_the_middle),
    "structured 1.0, pretty-printed": (3, _pretty),
    "structured 1.0, data_base64": (3, _base64),
    "binary 0.3": (4, _written("binary", "0.3")),
    "structured 0.3": (4, _written("structured", "0.3")),
    "binary 0.2": (2, _written("binary", "0.2")),
    "structured 0.1": (3, _written("structured", "0.1")),
    "broken": (1, _broken),
}
"""Per cent of the events, and how one is made."""


def records(count: int, mix: Collection[str] = MIX) -> Iterator[Record]:
    """``mix``  the kinds of ``MIX`` that there are, in its shares."""
    chance = random.Random(_SEED)
    kinds = [MIX[name] for name in mix]
    makers = [make for share, make in kinds for _ in range(share)]
    chance.shuffle(makers)
    for n in range(count):
        yield makers[n % len(makers)](n, chance)


def write(folder: Path, count: int, mix: Collection[str] = MIX) -> None:
    """``count`` events as Parquet of the columns RAW, in files of ``BASE``."""
    folder.mkdir(parents=True, exist_ok=True)
    base = table(list(records(min(BASE, count), mix)))
    for part in range(-(-count // BASE)):
        offsets = pa.array(range(part * BASE, part * BASE + len(base)), pa.int64())
        place = base.schema.get_field_index("offset")
        moved = base.set_column(place, "offset", offsets)
        path = folder / f"part-{part:05}.parquet"
        pyarrow.parquet.write_table(moved, path, compression="lz4", use_dictionary=False)


def table(made: list[Record]) -> pa.Table:
    rows = {
        "broker": ["kafka"] * len(made),
        "topic": ["orders"] * len(made),
        "partition": [n % 4 for n in range(len(made))],
        "offset": list(range(len(made))),
        "record_time": [datetime(2026, 11, 20, tzinfo=UTC)] * len(made),
        "key": [record.key for record in made],
        "value": [record.body for record in made],
        "headers": [
            [{"key": name, "value": value} for name, value in record.headers] for record in made
        ],
    }
    return pa.table(rows, _SCHEMA)
