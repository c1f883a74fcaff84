"""The identity of the process that answers a request of the admin API."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Process(msgspec.Struct, frozen=True):
    """The installation and the roles of this process. ``started_at`` is in seconds of the monotonic clock."""

    installation: str
    roles: Sequence[str]
    started_at: float
