"""The little HTTP and CloudEvents that sender and target of a laboratory speak. It shares no code with ``app``."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from proof.history import Event, digest

COMMON = {"specversion": "1.0", "datacontenttype": "application/json"}
"""The attributes of every event that is sent. The hash of an event is of its data and of all attributes that it has."""
BATCH = "application/cloudevents-batch+json"
_DATA = re.compile(
    rb'"data":\s*(\{[^}]*\})'
)  # data of the sender, which has one object without inner ones
_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


class Message(NamedTuple):
    """The head and body of a request or an answer, with header names in lower case."""

    first: str
    headers: dict[str, str]
    body: bytes

    @property
    def status(self) -> int:
        """The status of an answer."""
        return int(self.first.split()[1])


END_OF_HEAD = b"\r\n\r\n"


async def read_message(reader: asyncio.StreamReader) -> Message:
    """Read one message. Raises OSError or IncompleteReadError if the connection ends before."""
    first, headers = _head(await reader.readuntil(END_OF_HEAD))
    return Message(first, headers, await reader.readexactly(_length(headers)))


def take_message(buffer: bytearray) -> Message | None:
    """Remove the first message from a buffer and return it, or return None if it is not whole yet."""
    end = buffer.find(END_OF_HEAD) + len(END_OF_HEAD)
    if end < len(END_OF_HEAD):
        return None
    first, headers = _head(buffer[:end])
    whole = end + _length(headers)
    if len(buffer) < whole:
        return None
    message = Message(first, headers, bytes(buffer[end:whole]))
    del buffer[:whole]
    return message


def _head(head: bytes | bytearray) -> tuple[str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    fields: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines if line):
        known = fields.get(name := name.strip().lower())
        fields[name] = value.strip() if known is None else f"{known}, {value.strip()}"
    return first, fields


def _length(headers: Mapping[str, str]) -> int:
    return int(headers.get("content-length", "0"))


class Sent(NamedTuple):
    """An event of the sender: its attributes and the text of its data, which is JSON."""

    attributes: Mapping[str, str]
    data: str

    def seen(self) -> Event:
        """Return the event as the history has it."""
        return _event({**COMMON, **self.attributes}, self.data.encode())


_RECEIPTS = {"prefer": "return=representation"}


def binary_request(host: str, event: Sent, *, receipt: bool = False) -> bytes:
    """Return a POST of one event in binary mode, which asks for the receipt of the event if ``receipt`` is true."""
    fields = {f"ce-{name}": quote(value, safe=_SAFE) for name, value in event.attributes.items()}
    common = {"content-type": COMMON["datacontenttype"], "ce-specversion": COMMON["specversion"]}
    return _post(host, {**common, **fields, **(_RECEIPTS if receipt else {})}, event.data)


def batch_request(host: str, events: Sequence[Sent]) -> bytes:
    """Return a POST of several events as one JSON batch, which asks for receipts. The texts of their data stay."""
    items = (
        json.dumps({**COMMON, **each.attributes})[:-1] + f', "data": {each.data}}}'
        for each in events
    )
    return _post(host, {"content-type": BATCH, **_RECEIPTS}, f"[{','.join(items)}]")


def receipts(answer: Message, count: int, gateway: str = "") -> list[str | None]:
    """Return the place of each event in its log, from the body of an answer 200. RabbitMQ's queues have no places.

    The spool of a gateway is its own log, so ``gateway`` is a part of such a place.
    """
    places: list[str | None] = [None] * count
    for each in json.loads(answer.body):
        if each["position"]:
            place = (each["broker"], each["topic"], each["partition"], each["position"])
            owner = f"{gateway}/" if each["topic"].startswith("__spool.") else ""
            places[each["index"]] = owner + "/".join(map(str, place))
    return places


def _post(host: str, headers: Mapping[str, str], text: str) -> bytes:
    body = text.encode()
    fields = {"host": host, **headers, "content-length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST /events HTTP/1.1\r\n{head}\r\n".encode() + body


def received(message: Message) -> tuple[Event, ...]:
    """Return the events of a request, one in binary mode or a JSON batch, as the history has them."""
    headers = message.headers
    if headers.get("content-type", "").startswith(BATCH):
        pairs = zip(json.loads(message.body), _DATA.findall(message.body), strict=True)
        return tuple(_event(given, data) for given, data in pairs)
    given = {name: unquote(value) for name, value in headers.items() if name.startswith("ce-")}
    attributes = {name.removeprefix("ce-"): value for name, value in given.items()}
    return (
        _event({**attributes, "datacontenttype": headers.get("content-type", "")}, message.body),
    )


def _event(given: Mapping[str, Any], data: bytes) -> Event:
    attributes = {name: str(value) for name, value in given.items() if name != "data"}
    hashed = digest(data, attributes)
    return Event(attributes.get("id", ""), attributes.get("partitionkey", ""), hashed)
