"""What a run of hostile requests has seen in all its pieces, kept in its folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Total:
    """What a door has seen in all pieces. ``answers`` counts statuses, or frames of Kafka under ``frame``."""

    connections: int = 0
    cut: int = 0
    answers: dict[str, int] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        return sum(self.answers.values()) + self.cut


class Totals:
    """The totals of a run, in its folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "totals.json"
        stored = json.loads(self._file.read_text()) if self._file.exists() else {}
        self.pieces: int = stored.get("pieces", 0)
        self.doors = {name: Total(**each) for name, each in stored.get("doors", {}).items()}

    @property
    def requests(self) -> int:
        return sum(each.requests for each in self.doors.values())

    def save(self) -> None:
        rows = {name: asdict(each) for name, each in self.doors.items()}
        self._file.write_text(json.dumps({"pieces": self.pieces, "doors": rows}))
