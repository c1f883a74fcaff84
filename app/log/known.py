"""What is in memory of a log's file."""

from __future__ import annotations

from typing import NamedTuple

from app.log.catalogue import Catalogue
from app.log.event_index import EventIndex
from app.log.groups.positions import Positions
from app.log.identities import Identities
from app.log.producers import Producers


class Known(NamedTuple):
    """Read from the file at each start."""

    catalogue: Catalogue
    positions: Positions
    producers: Producers
    identities: Identities
    events: EventIndex
