"""A run in pieces: its folder has a history file for each piece, and what a piece leaves to the next one.

A piece ends when every acknowledged event is delivered and the service has stopped in order. So the checker can judge
the files of all pieces as one history. A piece that did not end has a file that ends in ``.part``. It is judged too,
because a run that loses events does not end. Its run cannot continue, because the next piece would not know which events are
still to come.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from proof.history import Delivery, Fault, HistoryWriter, Record, Request, Terms, read_history


class UnfinishedPiece(Exception):
    """A piece of the run did not come to its end."""


@dataclass
class Totals:
    """What all pieces of a run have done.

    Attributes:
        log: The kind of log.
        seed: The seed of the run.
        pieces: How many pieces have ended.
        unfinished: How many pieces have begun and not ended.
        acknowledged: Acknowledged events.
        faults: Faults by their names.
        next: The number of the next event, by key.
        seconds: The time that the pieces took.
        rate: Events a second at which a run at half load sends; 0.0 while it is not known.
    """

    log: str
    seed: int
    pieces: int = 0
    acknowledged: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    next: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    rate: float = 0.0
    unfinished: int = 0

    def count(self, record: Record) -> None:
        """Count a record of the run."""
        if isinstance(record, Request) and record.status in {200, 202}:
            self.acknowledged += len(record.events)
        elif isinstance(record, Fault):
            self.faults[record.name] = self.faults.get(record.name, 0) + 1


class PieceHistory(HistoryWriter):
    """The history of one piece, which counts what it takes.

    Attributes:
        totals: Those of the run, which grow with this piece.
        requests: The requests of this piece.
        acknowledged: The acknowledged events of this piece.
        delivered: The ids of events that were delivered in this piece.
    """

    def __init__(self, path: Path, totals: Totals) -> None:
        super().__init__(path)
        self.totals = totals
        self.acknowledged = self.requests = 0
        self.delivered: set[str] = set()

    @property
    def waiting(self) -> int:
        """Acknowledged events of this piece that are not delivered yet, if each delivered one is acknowledged."""
        return self.acknowledged - len(self.delivered)

    def write(self, record: Record) -> None:
        super().write(record)
        self.totals.count(record)
        if isinstance(record, Request):
            self.requests += 1
            self.acknowledged += len(record.events) if record.status in {200, 202} else 0
        elif isinstance(record, Delivery) and record.status == 204:
            self.delivered.update(each.id for each in record.events)


class Pieces:
    """The folder of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def totals(self, log: str, seed: int) -> Totals:
        """Return what earlier pieces have done.

        Raises:
            UnfinishedPiece: A piece did not end.
            ValueError: The folder has a run of another log or seed.
        """
        if self._parts:
            raise UnfinishedPiece(f"{self._parts[0]} did not end: begin again in another folder")
        return self._ended(log, seed)

    def judged(self, log: str, seed: int) -> Totals:
        """Return what all pieces have done, those that did not end as well.

        Raises:
            ValueError: The folder has a run of another log or seed.
        """
        totals = self._ended(log, seed)
        for path in self._parts:
            totals.unfinished += 1
            times = []
            for line in read_history([path]):
                totals.count(line.record)
                if isinstance(line.record, Request | Delivery | Fault):
                    times += [line.record.start, line.record.end]
                    times = [min(times), max(times)]
            totals.seconds += times[1] - times[0] if times else 0.0
        return totals

    def _ended(self, log: str, seed: int) -> Totals:
        """Return what the pieces have done that have ended."""
        if not self._state.exists():
            return Totals(log, seed)
        found = Totals(**json.loads(self._state.read_text()))
        if (found.log, found.seed) != (log, seed):
            raise ValueError(f"{self.folder} has a run of {found.log} with seed {found.seed}")
        return found

    def begin(self, totals: Totals, terms: Terms) -> PieceHistory:
        """Begin the history of the next piece. The first one has the terms of the run."""
        history = PieceHistory(self._part(totals), totals)
        if not totals.pieces:
            history.write(terms)
        return history

    def end(self, history: PieceHistory, seconds: float) -> None:
        """End a piece, so that the next one can begin."""
        history.close()
        totals = history.totals
        self._part(totals).rename(self._part(totals).with_suffix(".jsonl"))
        totals.pieces += 1
        totals.seconds += seconds
        self._state.write_text(json.dumps(asdict(totals)))

    @property
    def files(self) -> list[Path]:
        """The histories of all pieces, of which the last one may not have ended."""
        return [*sorted(self.folder.glob("piece*.jsonl")), *self._parts]

    @property
    def _parts(self) -> list[Path]:
        return sorted(self.folder.glob("piece*.part"))

    @property
    def _state(self) -> Path:
        return self.folder / "totals.json"

    def _part(self, totals: Totals) -> Path:
        return self.folder / f"piece{totals.pieces:03}.part"
