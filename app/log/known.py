"""The state of a log in memory."""

from __future__ import annotations

from typing import NamedTuple

from app.log.catalogue import Catalogue
from app.log.event_index import EventIndex
from app.log.groups.positions import GroupPositions
from app.log.identities import Identities
from app.log.producers import Producers


class LogState(NamedTuple):
    """The state of a log in memory, which is read from the file at each start."""

    catalogue: Catalogue
    positions: GroupPositions
    producers: Producers
    identities: Identities
    events: EventIndex
