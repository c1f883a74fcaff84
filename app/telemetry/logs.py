"""Logging set-up: one line an entry on standard error, by structlog.

Every part logs through ``logging``, with ``extra`` for what a machine looks for: ids of events, a code, a
subscription. Those are fields of their own here. Event data is in none of them (core: privacy), nor a secret.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

Entry = MutableMapping[str, Any]

_PLAIN = logging.Formatter()


def set_up_logging(level: str, *, as_json: bool) -> None:
    """``as_json``: for machines, each entry an object: ``at``, ``level``, ``part``, ``message``, the fields of
    the entry, and ``error`` with a traceback."""
    handler = logging.StreamHandler()
    last = [structlog.processors.JSONRenderer(ensure_ascii=False)] if as_json else [_for_people]
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder()],
            processors=[_ordered, *last],
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _ordered(_: Any, __: str, entry: Entry) -> Mapping[str, Any]:
    """What every entry has comes first."""
    record: logging.LogRecord = entry["_record"]
    own = {"_record", "_from_structlog", "event", "exc_info", "stack_info"}
    found = {
        "at": dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname,
        "part": record.name,
        "message": entry["event"],
        **{name: value for name, value in entry.items() if name not in own},
    }
    if error := entry.get("exc_info"):
        found["error"] = _PLAIN.formatException(error)
    return found


def _for_people(_: Any, __: str, entry: Entry) -> str:
    """``at LEVEL part  message  name=value ...``, a traceback below it."""
    at, level, part, message = (entry.pop(name) for name in ("at", "level", "part", "message"))
    error = entry.pop("error", "")
    fields = "".join(f"  {name}={value!r}" for name, value in entry.items())
    return f"{at} {level:<7} {part}  {message}{fields}" + (f"\n{error}" if error else "")
