"""Tables that other programs have created in the namespace of the lake."""

from __future__ import annotations

from typing import Any

from app.pipeline import tables
from app.pipeline.settings import Lake
from app.spark.settings import LakeCatalog

LAKE = Lake(LakeCatalog("jdbc", "jdbc:sqlite:catalog.db", "file:///lake"))
NAMES = ("events", "my-table", "orders", "2026", "a`b")


class Session:
    """Spark, which only knows these statements."""

    def __init__(self) -> None:
        rows = {f"SHOW TABLES IN lake.{LAKE.namespace}": [{"tableName": name} for name in NAMES]}
        typed = {"key": tables.TYPE_PROPERTY, "value": "com.example.order"}
        for name in ("`my-table`", "orders", "`2026`", "`a``b`"):
            of_skybridge = name in ("orders", "`2026`")
            rows[f"SHOW TBLPROPERTIES lake.skybridge.{name}"] = [typed] if of_skybridge else []
        self.rows = rows

    def sql(self, text: str) -> Any:
        found = self.rows[text]

        class Found:
            def collect(self) -> list[dict[str, str]]:
                return found

        return Found()


def test_names_that_need_quotation_marks_do_not_stop_upkeep_and_erasure() -> None:
    """A typed table may have been renamed."""
    session: Any = Session()
    assert tables.typed(session, LAKE) == ["2026", "orders"]
