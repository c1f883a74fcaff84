"""The process that answers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Process(msgspec.Struct, frozen=True):
    """Installation and roles of this process. ``started_at``: seconds of the monotonic clock."""

    installation: str
    roles: Sequence[str]
    started_at: float
