"""Shorten an input that makes a check fail, as long as it fails in the same way."""

from __future__ import annotations

import traceback
from collections.abc import Callable

_TRIES = 2_000

Failure = tuple[str, str]
"""The kind of an exception, and the innermost line of this checkout where it was raised."""


def failure_of(check: Callable[[bytes], None], data: bytes) -> Failure | None:
    """Return how the check fails for this input, or None."""
    try:
        check(data)
    except Exception as error:  # noqa: BLE001 - every one is a finding
        places = [
            each
            for each in traceback.extract_tb(error.__traceback__)
            if "/site-packages/" not in each.filename
        ]
        return type(error).__name__, f"{places[-1].name}: {places[-1].line}"
    return None  # fmt: skip


def shortest(check: Callable[[bytes], None], data: bytes) -> bytes:
    """Return a shorter input that fails in the same way: parts are left out, from large ones to single bytes."""
    wanted = failure_of(check, data)
    size, tries = len(data) // 2, 0
    while size and tries < _TRIES:
        at = 0
        while at < len(data) and tries < _TRIES:
            without, tries = data[:at] + data[at + size :], tries + 1
            if failure_of(check, without) == wanted:
                data = without
            else:
                at += size
        size //= 2
    return data
