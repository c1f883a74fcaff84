"""What a question to the lake gives, whichever engine has answered it."""

from __future__ import annotations

from typing import Any

import msgspec

from app.errors import SetupError
from app.pipeline import tables


class Answer(msgspec.Struct, frozen=True):
    """``rows``: values as Python has them, in the order of ``columns``. ``more``: the limit cut some off."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    more: bool


def refused(engine: str, why: str) -> SetupError:
    """SQL that an engine cannot read, or that names what is not there."""
    return SetupError(
        f"{engine} does not take this SQL: {why}",
        cure=f"the tables are {', '.join(tables.COLUMNS)}; DESCRIBE events names the columns",
    )


def changing(taken: str) -> SetupError:
    """A statement that does more than look."""
    return SetupError(
        "query only reads, and this statement would change something",
        cure=f"{taken} and EXPLAIN are taken; skybridge pipeline erase and maintain change the lake",
    )
