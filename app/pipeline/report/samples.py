"""A sample of the data of each type, as large as ``drift`` needs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from app.pipeline.report import drift, tables
from app.pipeline.report.drift import Shape
from app.pipeline.report.scope import Scope
from app.pipeline.report.tables import Table

DOCUMENTS: Final = 300  # approximate sample size of a type, in each half
TYPES: Final = 30  # number of types that are sampled, the most frequent first
LARGEST: Final = 16_384  # largest document in bytes; larger ones are left out
_SCALE: Final = 1 << 20
_SAMPLED: Final = (
    "SELECT type, record_time >= $middle AS late, data FROM made JOIN chosen USING (type)"  # noqa: S608 - all values are constants
    f" WHERE data_form = 'json' AND identity & {_SCALE - 1} < bound AND strlen(data) <= {LARGEST}"
)

Shapes = Mapping[str, Shape]
"""The shapes of the data by event type."""


def halves(scope: Scope, types: Table) -> tuple[Shapes, Shapes]:
    """Return the shapes of data in the first half of the range, and in the second half.

    The sample is chosen by ``identity``, a hash of source and id, so the same events give the same
    sample.
    """
    chosen = [(row["type"], _share(row["events"])) for row in types.dicts()[:TYPES]]
    before: dict[str, Shape] = {}
    after: dict[str, Shape] = {}
    if chosen:
        names, bounds = (pa.array(each) for each in zip(*chosen, strict=True))
        scope.register("chosen", pa.table({"type": names, "bound": bounds}))
        for name, late, data in scope.ask(_SAMPLED, middle=scope.span.middle).rows:
            shape = (after if late else before).setdefault(str(name), Shape())
            drift.add(shape, str(data))
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
    """Return the shapes as a table, which ``former`` reads for the next report."""
    rows = [
        (name, shape.documents, path, json.dumps(counts, sort_keys=True))
        for name, shape in sorted(shapes.items())
        for path, counts in sorted(shape.paths.items())
    ]
    return tables.of("type documents path counts", rows)


def former(file: Path) -> Shapes:
    """Read the shapes that an earlier report has written.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not such a table.
        KeyError: A column is missing.
    """
    found: dict[str, Shape] = {}
    for row in tables.read(file):
        shape = found.setdefault(row["type"], Shape(int(row["documents"])))
        shape.paths[row["path"]] = Counter(json.loads(row["counts"]))
    return found


def combined(one: Shapes, other: Shapes) -> Shapes:
    """Combine two samples into one."""
    found: dict[str, Shape] = {}
    for shapes in (one, other):
        for name, shape in shapes.items():
            whole = found.setdefault(name, Shape())
            whole.documents += shape.documents
            for path, counts in shape.paths.items():
                whole.paths.setdefault(path, Counter()).update(counts)
    return found


def _share(count: int) -> int:
    """Return the identity below which each half of the range has about ``DOCUMENTS`` events. The
    events below it are the sample."""
    return round(min(1.0, 2 * DOCUMENTS / count) * _SCALE)
