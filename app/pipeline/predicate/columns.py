"""Where a condition finds the attributes of an event: in columns named as ``tables.ATTRIBUTES`` has them."""

from __future__ import annotations

from typing import Final

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

CORE: Final = (
    "specversion", "id", "source", "type", "subject", "datacontenttype", "dataschema", "time",
)  # fmt: skip
ALWAYS_THERE: Final = frozenset({"specversion", "id", "source", "type"})
"""What every event has (core 1.1): asking for it cannot fail."""


class Columns(msgspec.Struct, frozen=True):
    """Columns of one frame. ``prefix`` stands before each name: ``event.`` where they are one struct."""

    prefix: str = ""

    def attribute(self, name: str) -> Column:
        """The canonical text of an attribute by its 1.0 name; null where the event lacks it."""
        if name == "time":
            return F.col(f"{self.prefix}time_text")  # the text that came, not the instant
        if name in CORE:
            return F.col(f"{self.prefix}{name}")
        return F.try_element_at(F.col(f"{self.prefix}extensions"), F.lit(name))

    def kind(self, name: str) -> Column | None:
        """``Integer``, ``Boolean`` or null, which is ``String``. None: it is always a String."""
        if name in CORE:
            return None
        return F.try_element_at(F.col(f"{self.prefix}types"), F.lit(name))


DECODED: Final = Columns()
"""Of the frames that ``app.pipeline.decode`` makes, and of the table ``events``."""
