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
import sys
from typing import Any

from app.telemetry.crashes import log_crashes
from app.telemetry.printable import printable

_OWN = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"}
)  # attributes of every record; all others were passed as ``extra``


def set_up_logging(level: str, *, as_json: bool) -> None:
    """Set up logging at this level.

    With ``as_json`` each entry is a JSON object: ``at``, ``level``, ``part``, ``message``, the
    extra fields, and ``error`` with a traceback. Warnings of Python and errors that no code handles
    become entries too. Otherwise an entry is a line for people.
    """
    handler = _JsonHandler() if as_json else logging.StreamHandler()
    handler.setFormatter(_ForMachines() if as_json else _ForPeople())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(as_json)
    log_crashes(wanted=as_json)


def logs_json() -> bool:
    """Return True if the log is set up, and each of its entries is a JSON object."""
    return any(isinstance(each, _JsonHandler) for each in logging.getLogger().handlers)


class _JsonHandler(logging.StreamHandler[Any]):
    """The handler of entries for machines. An entry that cannot be formatted becomes an entry about
    this fault, because the usual report is no JSON.
    """

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of logging
        message = "an entry of the log cannot be written"
        about = logging.makeLogRecord(
            {
                "name": record.name,
                "levelno": logging.ERROR,
                "levelname": "ERROR",
                "msg": message,
                "exc_info": sys.exc_info(),
                "entry": str(record.msg),
            }
        )
        try:
            self.stream.write(self.format(about) + self.terminator)
        except (OSError, ValueError):  # the output is closed
            return


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
