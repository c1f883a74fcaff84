"""What the API asks of whoever knows the configuration in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from app.errors import Fault

Cause = Literal["start", "signal", "file", "api"]
Outcome = Literal["ok", "unchanged", "refused"]
Refusal = Literal["", "invalid-configuration", "needs-restart", "not-now"]


class Reload(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one. ``at``: seconds since the epoch. ``refusal``: what kind of; ``not-now`` may pass."""

    at: float
    cause: Cause
    outcome: Outcome
    digest: str
    changes: Sequence[str] = ()
    anew: Sequence[str] = ()
    faults: Sequence[Fault] = ()
    warnings: Sequence[str] = ()
    refusal: Refusal = ""


class Configured(Protocol):
    """What a service runs on. ``taken``: the last reload that was not refused, or the start."""

    source: str
    digest: str
    last: Reload
    taken: Reload

    @property
    def shown(self) -> Mapping[str, Any]:
        """Every setting as it may be read."""

    async def reload(self, cause: Cause) -> Reload: ...
