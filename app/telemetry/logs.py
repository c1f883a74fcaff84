"""The set-up of logging: one line for each entry on standard error.

Every module logs through ``logging``. Values that a machine searches for are passed as ``extra``:
ids of events, a code, a subscription. They become separate fields. Entries contain no event data
(CloudEvents core: privacy) and no secrets. They may contain names that clients chose, so both forms
escape characters that forge a line or control a terminal.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
from typing import Any

from app.telemetry.printable import printable

_OWN = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"}
)  # attributes of every record; all others were passed as ``extra``


def set_up_logging(level: str, *, as_json: bool) -> None:
    """Set up logging at this level.

    With ``as_json`` each entry is a JSON object: ``at``, ``level``, ``part``, ``message``, the
    extra fields, and ``error`` with a traceback. Otherwise it is a line for people.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_ForMachines() if as_json else _ForPeople())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _ForMachines(logging.Formatter):
    """The formatter that writes an entry as a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(json.dumps(self._entry(record), ensure_ascii=False, default=repr))

    def _entry(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the fields of a log entry. The fields that every entry has come first."""
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
    """The formatter that writes ``at LEVEL part  message  name=value ...``, followed by an indented
    traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        entry = self._entry(record)
        at, level, part, message = (entry.pop(name) for name in ("at", "level", "part", "message"))
        error = entry.pop("error", "")
        fields = "".join(f"  {name}={value!r}" for name, value in entry.items())
        line = printable(f"{at} {level:<7} {part}  {message}{fields}")
        return "\n  ".join([line, *map(printable, error.split("\n"))]) if error else line
