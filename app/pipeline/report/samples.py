"""Some of the data of each type: as much as ``drift`` needs, and never much."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from app.pipeline.report import drift, tables
from app.pipeline.report.drift import Shape
from app.pipeline.report.measures import Scope
from app.pipeline.report.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import Column

DOCUMENTS: Final = 300  # about so many of a type, on each side
TYPES: Final = 30  # the most frequent ones
LARGEST: Final = 16_384  # bytes of a document; larger ones are left out
_SCALE: Final = 1 << 20

Shapes = Mapping[str, Shape]
"""By type."""


def halves(scope: Scope, types: Table) -> tuple[Shapes, Shapes]:
    """The data of the first half of the range, and of the second.

    Chosen by ``identity``, which is a hash of source and id: the same events give the same sample.
    """
    chosen = [(row["type"], row["events"]) for row in types.dicts()[:TYPES]]
    if not chosen:
        return {}, {}
    late = f.col("record_time") >= f.lit(scope.span.middle)
    sampled = (
        scope.events.where(f.col("data").isNotNull() & (f.col("data_form") == "json"))
        .where(_picked(chosen))
        .where(f.octet_length("data") <= LARGEST)
        .select("type", late.alias("late"), "data")
    )
    before: dict[str, Shape] = {}
    after: dict[str, Shape] = {}
    for row in sampled.toLocalIterator():
        shape = (after if row["late"] else before).setdefault(row["type"], Shape())
        drift.add(shape, row["data"])
    return before, after


def drifted(before: Shapes, after: Shapes) -> Table:
    rows = [
        (name, each.path, each.change, each.before, each.after)
        for name, shape in sorted(after.items())
        if name in before
        for each in drift.compare(before[name], shape)
    ]
    return tables.of("type path change before after", rows)


def as_table(shapes: Shapes) -> Table:
    """For the report after this one: ``former`` reads it again."""
    rows = [
        (name, shape.documents, path, json.dumps(counts, sort_keys=True))
        for name, shape in sorted(shapes.items())
        for path, counts in sorted(shape.paths.items())
    ]
    return tables.of("type documents path counts", rows)


def former(file: Path) -> Shapes:
    """The shapes that an earlier report wrote. Raises OSError, ValueError, KeyError for what is no such file."""
    found: dict[str, Shape] = {}
    for row in tables.read(file):
        shape = found.setdefault(row["type"], Shape(int(row["documents"])))
        shape.paths[row["path"]] = Counter(json.loads(row["counts"]))
    return found


def both(one: Shapes, other: Shapes) -> Shapes:
    """Of two samples one."""
    found: dict[str, Shape] = {}
    for shapes in (one, other):
        for name, shape in shapes.items():
            whole = found.setdefault(name, Shape())
            whole.documents += shape.documents
            for path, counts in shape.paths.items():
                whole.paths.setdefault(path, Counter()).update(counts)
    return found


def _picked(chosen: Sequence[tuple[str, int]]) -> Column:
    """About ``DOCUMENTS`` of each type and half, by its count."""
    place = f.pmod(f.col("identity"), f.lit(_SCALE))
    picked = f.lit(False)
    for name, count in chosen:
        share = min(1.0, 2 * DOCUMENTS / count)
        picked |= (f.col("type") == name) & (place < f.lit(round(share * _SCALE)))
    return picked
