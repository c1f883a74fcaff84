"""The official Python SDK, asked over stdin: one JSON object a line, one answer a line.

Header bytes of HTTP become text as WSGI and ASGI servers make them: Latin-1, repeats joined.
"""

from __future__ import annotations

import json
import sys
from base64 import b64decode, b64encode
from datetime import datetime
from typing import Any

from cloudevents.core.bindings import http, kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v03.event import CloudEvent as CloudEvent03
from cloudevents.core.v1.event import CloudEvent
from dateutil.parser import isoparse

FORMAT = JSONFormat()
EVENTS = {"1.0": CloudEvent, "0.3": CloudEvent03}


def read(request: dict[str, Any]) -> dict[str, Any]:
    message = request["message"]
    if request["binding"] == "kafka":
        headers = {name: _bytes(value) for name, value in message["headers"]}
        record = kafka.KafkaMessage(headers, _bytes(message["key"]), _bytes(message["value"]))
        return {"events": [_seen(kafka.from_kafka(record, FORMAT))]}
    fields = _joined(message["headers"])
    if fields.get("content-type", "").lower().startswith("application/cloudevents-batch"):
        return {"unable": "no batches"}
    request_ = http.HTTPMessage(fields, _bytes(message["body"]))
    return {"events": [_seen(http.from_http(request_, FORMAT))]}


def write(request: dict[str, Any]) -> dict[str, Any]:
    if request["mode"] == "batch":
        return {"unable": "no batches"}
    event = _event(request["events"][0], request["version"])
    if request["binding"] == "http":
        sent = getattr(http, f"to_{request['mode']}")(event, FORMAT)
        headers = [[name, _base64(value.encode())] for name, value in sent.headers.items()]
        return {"message": {"headers": headers, "body": _base64(sent.body)}}
    record = getattr(kafka, f"to_{request['mode']}")(event, FORMAT)
    key = record.key.encode() if isinstance(record.key, str) else record.key
    headers = [[name, _base64(value)] for name, value in record.headers.items()]
    return {
        "message": {"key": _base64(key), "headers": headers, "value": _base64(record.value)},
    }


def _event(given: dict[str, Any], version: str) -> Any:
    attributes = dict(given["attributes"])
    if "time" in attributes:
        attributes["time"] = isoparse(attributes["time"])
    return EVENTS[version](attributes, _data(given["data"]))


def _data(given: dict[str, str] | None) -> Any:
    if given is None:
        return None
    ((form, text),) = given.items()
    return {"json": json.loads, "text": str, "base64": b64decode}[form](text)


def _seen(event: Any) -> dict[str, Any]:
    attributes = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in event.get_attributes().items()
    }
    return {"attributes": attributes, "data": _shown(event.get_data())}


def _shown(data: Any) -> dict[str, Any] | None:
    if data is None:
        return None
    if isinstance(data, bytes):
        return {"base64": _base64(data)}
    return {"text": data} if isinstance(data, str) else {"json": json.dumps(data)}


def _joined(headers: list[list[str]]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, value in headers:
        text = b64decode(value).decode("latin-1")
        key = name.lower()
        fields[key] = f"{fields[key]},{text}" if key in fields else text
    return fields


def _bytes(value: str | None) -> Any:
    return None if value is None else b64decode(value)


def _base64(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"read": read, "write": write}[request["do"]](request)
        except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
