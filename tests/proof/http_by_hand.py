"""The little HTTP and CloudEvents that sender and target of a laboratory speak. It shares no code with ``app``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

from proof.history import Event, digest

NAMES = ("id", "source", "type", "subject", "partitionkey")
"""The attributes that the sender gives. The hash of an event is of these and of its data."""
_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


class Message(NamedTuple):
    """The head and body of a request or an answer, with header names in lower case."""

    first: str
    headers: dict[str, str]
    body: bytes


async def read_message(reader: asyncio.StreamReader) -> Message:
    """Read one message. Raises OSError or IncompleteReadError if the connection ends before."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    return Message(
        first, headers, await reader.readexactly(int(headers.get("content-length", "0")))
    )


class Sent(NamedTuple):
    """An event of the sender: its attributes and the text of its data, which is JSON."""

    attributes: Mapping[str, str]
    data: str

    def seen(self) -> Event:
        """Return the event as the history has it."""
        hashed = digest(self.data.encode(), self.attributes)
        return Event(self.attributes["id"], self.attributes["partitionkey"], hashed)


def binary_request(host: str, event: Sent) -> bytes:
    """Return a POST of one event in binary mode."""
    fields = {f"ce-{name}": quote(value, safe=_SAFE) for name, value in event.attributes.items()}
    return _post(
        host, {"content-type": "application/json", "ce-specversion": "1.0", **fields}, event.data
    )


def batch_request(host: str, events: Sequence[Sent]) -> bytes:
    """Return a POST of several events as one JSON batch. The texts of their data stay as they are."""
    items = (
        json.dumps(
            {"specversion": "1.0", "datacontenttype": "application/json", **each.attributes}
        )[:-1]
        + f', "data": {each.data}}}'
        for each in events
    )
    kind = "application/cloudevents-batch+json"
    return _post(host, {"content-type": kind}, f"[{','.join(items)}]")


def _post(host: str, headers: Mapping[str, str], text: str) -> bytes:
    body = text.encode()
    fields = {"host": host, **headers, "content-length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST /events HTTP/1.1\r\n{head}\r\n".encode() + body


def received(message: Message) -> Event:
    """Return the event of a request in binary mode, as the history has it."""
    given = {name: unquote(message.headers.get(f"ce-{name}", "")) for name in NAMES}
    return Event(given["id"], given["partitionkey"], digest(message.body, given))
