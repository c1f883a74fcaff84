"""Logging set-up: one line an entry on standard error."""

from __future__ import annotations

import json
import logging


def set_up_logging(level: str, *, as_json: bool) -> None:
    """One line an entry on standard error. Event data is never logged (core: privacy)."""
    handler = logging.StreamHandler()
    people = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s  %(message)s")
    handler.setFormatter(_JsonLines() if as_json else people)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _JsonLines(logging.Formatter):
    """One object an entry, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": self.formatTime(record),
            "level": record.levelname,
            "part": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
