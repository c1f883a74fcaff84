"""The answer to a question to the lake, and the errors of refused SQL, for every engine."""

from __future__ import annotations

from typing import Any

import msgspec

from app.errors import SetupError
from app.pipeline import tables


class QueryAnswer(msgspec.Struct, frozen=True):
    """The rows that a question returns.

    Attributes:
        columns: The names of the columns.
        rows: The values as Python objects, in the order of the columns.
        more: Whether the limit left out rows.
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]
    more: bool


def refused_sql(engine: str, why: str) -> SetupError:
    """Return the error for SQL that an engine cannot read, or that names an unknown table or
    column.
    """
    return SetupError(
        f"{engine} refused this SQL: {why}",
        cure=f"the tables are {', '.join(tables.COLUMNS)}, and those of pipeline.tables; DESCRIBE events names the columns",
    )


def changing_sql(taken: str) -> SetupError:
    """Return the error for a statement that would change something. ``taken`` lists the permitted
    statements.
    """
    return SetupError(
        "query only reads, and this statement would change something",
        cure=f"{taken} and EXPLAIN are permitted; skybridge pipeline erase and maintain change the lake",
    )
