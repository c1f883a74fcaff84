"""What a person gives to a verb: files, data, attributes; and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.cli import exits, printing


def attributes(pairs: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` each."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            printing.fail(f"--attribute {pair} is not NAME=VALUE.", code=exits.SETUP)
        found[name] = value
    return found


def data(text: str) -> bytes | None:
    """Of an event: text, ``@FILE``, or none."""
    if text.startswith("@"):
        return content(Path(text[1:]))
    return text.encode() if text else None


def content(file: Path) -> bytes:
    """Of a file; ``-`` is standard input."""
    import sys

    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as failure:
        printing.fail(f"{file} cannot be read: {failure.strerror}.", code=exits.SETUP)


def now() -> str:
    import datetime as dt

    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
