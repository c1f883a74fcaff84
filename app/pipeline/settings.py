"""The settings of the lake, as plain values. ``app.spark.settings`` has those of Spark and of the
brokers.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from app.pipeline.kinds import TypedTable
from app.spark.settings import LakeCatalog

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def folder_of(uri: str) -> Path | None:
    """Return the folder of a URI on this machine; None if the URI is elsewhere."""
    where = urlsplit(uri)
    return Path(unquote(where.path)) if where.scheme == "file" else None


class Lake(msgspec.Struct, frozen=True):
    """The tables of a lake. Spark and all other readers name a table ``lake.<namespace>.<table>``.

    Attributes:
        catalog: The catalog of the tables.
        namespace: The namespace of the tables.
        buckets: The number of buckets by (source, id) within each day of ``events``; 1 for none.
        tables: The typed tables.
        window: The time in seconds within which a repeated event is a duplicate; None for always.
    """

    catalog: LakeCatalog
    namespace: str = "skybridge"
    buckets: int = 1
    tables: tuple[TypedTable, ...] = ()
    window: float | None = None

    def table(self, name: str) -> str:
        """Return the name of a table as Spark's SQL takes it. Other programs may have created tables
        with names that need quotation marks."""
        shown = name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"
        return f"lake.{self.namespace}.{shown}"
