"""Logging set-up: one line an entry on standard error.

Every part logs through ``logging``, with ``extra`` for what a machine looks for: ids of events, a code, a
subscription. Those are fields of their own here. Event data is in none of them (core: privacy), nor a secret.
Names that clients chose are in them: both forms escape what would forge a line or steer a terminal.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
from typing import Any

from app.telemetry.printable import printable

_OWN = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"}
)  # of every record; what else one has came by ``extra``


def set_up_logging(level: str, *, as_json: bool) -> None:
    """``as_json``: for machines, each entry an object: ``at``, ``level``, ``part``, ``message``, the fields of
    the entry, and ``error`` with a traceback."""
    handler = logging.StreamHandler()
    handler.setFormatter(_ForMachines() if as_json else _ForPeople())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _ForMachines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(json.dumps(self._entry(record), ensure_ascii=False, default=repr))

    def _entry(self, record: logging.LogRecord) -> dict[str, Any]:
        """What every entry has comes first."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC)
        found = {
            "at": at.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "part": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in record.__dict__.items() if name not in _OWN},
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return found


class _ForPeople(_ForMachines):
    """``at LEVEL part  message  name=value ...``, and below it, indented, a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        entry = self._entry(record)
        at, level, part, message = (entry.pop(name) for name in ("at", "level", "part", "message"))
        error = entry.pop("error", "")
        fields = "".join(f"  {name}={value!r}" for name, value in entry.items())
        line = printable(f"{at} {level:<7} {part}  {message}{fields}")
        return "\n  ".join([line, *map(printable, error.split("\n"))]) if error else line
