"""What the codecs alone cost, in this process: the bindings, validation on, and nothing around them.

Each move is measured beside its floor, the least that anybody can do, and beside the same move by the official
Python SDK. The floor of binary mode only renames headers, and the floor of documents only parses them. Requests
differ, as they do in life: names and content types repeat, ids and keys do not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time

import table
from bench_events import BATCH, attributes, body
from cloudevents.core.bindings import http as sdk_http
from cloudevents.core.bindings import kafka as sdk_kafka
from cloudevents.core.formats.json import JSONFormat

from app.bindings import http, kafka
from app.bindings.headers import FIELD_NAMES
from app.bindings.transcode import PLAIN
from app.runtime.heap import settle_heap

Header = tuple[bytes, bytes]
Move = Callable[[], None]

DOCUMENT_SIZE = 1024
BINARY, STRUCTURED, BATCHED = 3, 3.4, 4.3  # the most that a move may cost, in its floors
FORWARD = frozenset({b"traceparent", b"tracestate"})
_OTHERS = ((b"host", b"127.0.0.1:8080"), (b"user-agent", b"bench/1"), (b"content-length", b"600"))
_JSON = JSONFormat()
_HEADERS = {
    "structured": [(FIELD_NAMES[b"content-type"], b"application/cloudevents+json")],
    "batch": [(FIELD_NAMES[b"content-type"], b"application/cloudevents-batch+json")],
}


@dataclass(frozen=True)
class Moves:
    """One move over ``events`` events, by us, by the SDK, and by the floor, with the most that its ratio may be."""

    name: str
    most: float
    events: int
    ours: Move
    sdk: Move
    floor: Move
    floor_name: str


def moves(count: int) -> list[Moves]:
    requests = [(_headers(number), body(number)) for number in range(count)]
    documents = [_document(number) for number in range(count)]
    batches = [
        b"[" + b",".join(documents[first : first + BATCH]) + b"]"
        for first in range(0, count, BATCH)
    ]
    return [
        Moves("HTTP binary → Kafka binary", BINARY, count, lambda: _binary(requests),
              lambda: _sdk_binary(requests), lambda: _remap(requests), "bare header remap"),
        Moves("structured of 1 KB → Kafka binary", STRUCTURED, count, lambda: _structured(documents),
              lambda: _sdk_structured(documents), lambda: _parse(documents), "bare json.loads"),
        Moves("batch of 100 structured → Kafka binary", BATCHED, count, lambda: _batches(batches),
              lambda: _sdk_batches(batches), lambda: _parse(batches), "bare json.loads"),
    ]  # fmt: skip


@dataclass
class CodecRow(table.Row):
    """``memory`` has no meaning here: what the SDK needs stands in its place."""

    sdk: float = 0.0

    def cells(self) -> list[str]:
        return [*super().cells()[:-1], f"{self.sdk:.1f}"]


PREFACE = """## Codecs

The bindings alone, in one process, validation on: from the headers and body of a request to the record,
beside the official Python SDK (`cloudevents` 2.2.0) doing the same, and beside a floor in the same run: a loop that
only renames headers, or only parses the documents with Python's `json.loads`. The SDK reads no batches: its figure is
that of taking the array apart first.
"""
HEADINGS = [*table.HEADINGS[:-1], "official Python SDK µs/event"]


def measure(rounds: int, count: int) -> list[CodecRow]:
    """Rounds of ours and of the floor alternate; the SDK, which is slow, has one."""
    found = []
    every = moves(count)
    settle_heap()  # as the service does
    for each in every:
        row = CodecRow(each.name, each.floor_name, each.most)
        each.ours()  # warm
        for _ in range(rounds):
            row.measured.append(_cost(each.ours, each.events))
            row.floor.append(_cost(each.floor, each.events))
        row.sdk = _cost(each.sdk, each.events)
        found.append(row)
    return found


def _cost(move: Move, events: int) -> float:
    """Microseconds of CPU an event."""
    before = process_time()
    move()
    return 1e6 * (process_time() - before) / events


def _headers(number: int) -> list[Header]:
    """As the listener hands them over: one object a name."""
    own = [(f"ce-{name}".encode(), text.encode()) for name, text in attributes(number).items()]
    sent = [*_OTHERS, (b"content-type", b"application/json"), *own]
    return [(FIELD_NAMES[name], value) for name, value in sent]


def _document(number: int) -> bytes:
    start = json.dumps({**attributes(number), "datacontenttype": "application/json"})[:-1]
    filler = DOCUMENT_SIZE - len(start) - len(',"data":{"note":""}}')
    return f'{start},"data":{{"note":"{"x" * filler}"}}}}'.encode()


def _binary(requests: Sequence[tuple[list[Header], bytes]]) -> None:
    for headers, content in requests:
        (decoded,) = http.decode(headers, content, forward=FORWARD)
        kafka.encode(decoded, PLAIN, b"key")


def _structured(documents: Sequence[bytes]) -> None:
    for document in documents:
        (decoded,) = http.decode(_HEADERS["structured"], document, forward=FORWARD)
        kafka.encode(decoded, PLAIN, b"key")


def _batches(batches: Sequence[bytes]) -> None:
    for batch in batches:
        for decoded in http.decode(_HEADERS["batch"], batch, forward=FORWARD):
            kafka.encode(decoded, PLAIN, b"key")


def _remap(requests: Sequence[tuple[list[Header], bytes]]) -> None:
    """Renames and copies; reads nothing, checks nothing."""
    for headers, content in requests:
        record = []
        for name, value in headers:
            if name.startswith(b"ce-"):
                record.append(("ce_" + name[3:].decode(), value))
            elif name == b"content-type":
                record.append(("content-type", value))
        _ = (b"key", tuple(record), content)


def _parse(documents: Sequence[bytes]) -> None:
    """Parses, and checks nothing else."""
    for document in documents:
        json.loads(document)


def _sdk_binary(requests: Sequence[tuple[list[Header], bytes]]) -> None:
    for headers, content in requests:
        named = {name.decode(): value.decode() for name, value in headers}
        event = sdk_http.from_http_event(sdk_http.HTTPMessage(named, content))
        sdk_kafka.to_binary_event(event)


def _sdk_structured(documents: Sequence[bytes]) -> None:
    named = {"content-type": "application/cloudevents+json"}
    for document in documents:
        event = sdk_http.from_http_event(sdk_http.HTTPMessage(named, document))
        sdk_kafka.to_binary_event(event)


def _sdk_batches(batches: Sequence[bytes]) -> None:
    """It knows no batches: what a user of it would write."""
    named = {"content-type": "application/cloudevents+json"}
    for batch in batches:
        for document in json.loads(batch):
            message = sdk_http.HTTPMessage(named, json.dumps(document).encode())
            sdk_kafka.to_binary_event(sdk_http.from_http_event(message))
