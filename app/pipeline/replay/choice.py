"""The selection of the records in ``events_raw`` that a replay sends."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from pydantic import ValidationError

from app.errors import SetupError
from app.filters.model import Filter
from app.pipeline import tables

if TYPE_CHECKING:
    from pyspark.sql import Column


class RecordChoice(msgspec.Struct, frozen=True):
    """The conditions for records of a replay. A record must meet all conditions that are set.

    Attributes:
        since: The earliest record time by the log's clock, with a time zone.
        until: The first record time that is no longer included, with a time zone.
        topics: The names of the topics. ``orders`` includes ``orders@2``.
        types: The event types, of which one must match; a trailing ``*`` matches any ending.
        sources: The event sources, in the same form.
        subjects: The event subjects, in the same form.
        sql: A CloudEvents SQL expression.
    """

    since: datetime | None = None
    until: datetime | None = None
    topics: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    sql: str = ""

    @property
    def by_event(self) -> bool:
        """Return True if a condition needs the decoded event."""
        return bool(self.types or self.sources or self.subjects or self.sql)

    def filters(self) -> list[Filter]:
        """Return the conditions on events as filters of a subscription.

        Raises:
            SetupError: The SQL expression is invalid.
        """
        named = (("type", self.types), ("source", self.sources), ("subject", self.subjects))
        found = [
            Filter(any=tuple(_one(name, text) for text in texts)) for name, texts in named if texts
        ]
        return [*found, _sql(self.sql)] if self.sql else found

    def of_records(self) -> Column:
        """Return the conditions that need no decoding, as a condition of Spark."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        found = f.lit(True)
        if self.since is not None:
            found &= f.col("record_time") >= f.lit(self.since)
        if self.until is not None:
            found &= f.col("record_time") < f.lit(self.until)
        if not self.topics:
            return found
        named = f.regexp_replace("topic", tables.CREATED_AGAIN, "$1")
        return found & (f.col("topic").isin(list(self.topics)) | named.isin(list(self.topics)))


def _one(name: str, text: str) -> Filter:
    if text.endswith("*") and len(text) > 1:
        return Filter(prefix={name: text[:-1]})
    return Filter(exact={name: text})


def _sql(expression: str) -> Filter:
    try:
        return Filter(sql=expression)
    except ValidationError as error:
        raise SetupError(
            error.errors()[0]["msg"].removeprefix("Value error, "),
            setting="--filter",
            cure="write CloudEvents SQL: \"subject LIKE 'eu-%' AND priority > 3\"",
        ) from error
