"""Group values by their names. The meaning of a name is looked up once for each batch and version.

All values of that name are then added to their column at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from app.pipeline.decode.buffers import Numbers
from app.pipeline.decode.event_rows import EventRows
from app.pipeline.decode.meanings import DOUBTFUL, FOREIGN, Meaning
from app.pipeline.decode.values import Values


class NamedValues:
    """The headers, or the members of documents, of all rows in one sequence, grouped by name.

    Attributes:
        rows: The row of each value, in ascending order.
    """

    def __init__(self, names: Sequence[str], codes: Numbers, rows: Numbers) -> None:
        self.rows = rows
        codes = codes.astype(np.uint16) if len(names) < 1 << 16 else codes
        self._ordered: Numbers = np.argsort(codes, kind="stable")
        self._ends: Numbers = np.cumsum(np.bincount(codes, minlength=len(names)))
        self._codes = {name: code for code, name in enumerate(names)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._codes)

    def __getitem__(self, name: str) -> Numbers:
        """Return the indexes of the values with this name, in ascending order."""
        code = self._codes.get(name)
        if code is None:
            return np.zeros(0, np.int64)
        found: Numbers = self._ordered[self._ends[code - 1] if code else 0 : self._ends[code]]
        return found

    def repeated(self, places: Numbers) -> Numbers:
        """Return the rows that have more than one of the values at these places."""
        rows = self.rows[places]
        found: Numbers = rows[1:][rows[1:] == rows[:-1]]
        return found

    def put(
        self, events: EventRows, values: Values, meanings: Sequence[Mapping[str, Meaning]]
    ) -> None:
        """Add all values to ``events``, whose versions must be known. ``meanings`` has the meaning
        of names by version index.
        """
        for name in self:
            for meant, places in self._meant(name, events.origin, meanings):
                if meant == DOUBTFUL:
                    events.clear[self.rows[places]] = False
                else:
                    events.clear[self.repeated(places)] = False
                    events.put(meant, self.rows[places], values.at(places), values)

    def _meant(
        self, name: str, origin: Numbers, meanings: Sequence[Mapping[str, Meaning]]
    ) -> Iterator[tuple[Meaning, Numbers]]:
        """Yield each meaning of a name in the versions of its rows, with the indexes of the values."""
        places = self[name]
        origins = origin[self.rows[places]]
        present = np.flatnonzero(np.bincount(origins + 1, minlength=1)[1:]).tolist()
        found: dict[Meaning, list[int]] = {}
        for version in present:
            found.setdefault(meanings[version][name], []).append(version)
        found.pop(FOREIGN, None)
        for meant, versions in found.items():
            of_all = len(versions) == len(present)
            yield meant, places if of_all else places[np.isin(origins, versions)]
