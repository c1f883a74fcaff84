"""The parts of a dispatcher that others direct or report on."""

from __future__ import annotations

from typing import NamedTuple

from app.delivery.lanes import Lanes
from app.interfaces import Sink
from app.worker.conclusions import Conclusions
from app.worker.delivery import Delivery
from app.worker.drain_parked import Drain
from app.worker.gate import Gate
from app.worker.offset_commits import OffsetCommits
from app.worker.ownership import Ownership
from app.worker.parking import Parking
from app.worker.redrive import Redrive
from app.worker.replay import Replays
from app.worker.scheduler import Scheduler
from app.worker.stored_rows import StoredRows


class Components(NamedTuple):
    """Of one subscription."""

    sink: Sink
    lanes: Lanes[Delivery]
    gate: Gate
    parking: Parking
    rows: StoredRows
    conclusions: Conclusions
    scheduler: Scheduler
    drain: Drain
    commits: OffsetCommits
    ownership: Ownership
    redrive: Redrive
    replays: Replays
