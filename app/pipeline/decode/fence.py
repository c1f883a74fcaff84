"""A fence in a plan: what stands above it is not taken down below it.

The native way is some twenty projections upon each other, each of which names columns of the one before.
Spark's optimizer takes a filter on a decoded column down through all of them, with every name replaced by
what it stands for, which doubles with each: the plan of ``type = 'x'`` would take minutes, or never be made.
The same happens to a union or a join that filters. So every frame that is decoded natively ends in a fence,
and whoever adds projections of his own to it, and filters by them, puts one between.

The fence is an observation that counts rows: of the nodes that no filter passes it is the cheapest, a counter
for each row, and it keeps order, partitions and columns. The count is told to nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def fenced(frame: DataFrame) -> DataFrame:
    """The same rows. Filters of these are worked out on them, once."""
    return frame.observe(f"fence {uuid4().hex}", f.count(f.lit(1)).alias("records"))
