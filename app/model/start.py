"""Where a group without a position begins (rule 10 of delivery)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec


class StartAt(msgspec.Struct, frozen=True):
    """``kind`` earliest, latest, time (``time_ms`` since the epoch) or position (by partition)."""

    kind: Literal["earliest", "latest", "time", "position"] = "latest"
    time_ms: int = 0
    positions: Mapping[int, str] = {}


EARLIEST = StartAt("earliest")
LATEST = StartAt("latest")
