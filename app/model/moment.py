"""Read times as people and clients write them: RFC 3339 with a time zone, or milliseconds since 1970."""

from __future__ import annotations

from datetime import datetime

LATEST_MS = 253_402_300_800_000  # the year 10000, in ms since the epoch


def time_of(text: str) -> int | None:
    """Return milliseconds since the epoch for RFC 3339 text with a time zone, or None for other text."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else round(moment.timestamp() * 1000)
