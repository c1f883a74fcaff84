"""The configuration in force and its reloads, as the API asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from app.errors import Fault
from app.model.judgement import Judgement

Cause = Literal["start", "signal", "file", "api"]
Outcome = Literal["ok", "unchanged", "refused"]
Refusal = Literal["", "invalid-configuration", "needs-restart", "not-now"]

STATUS_OF_REFUSAL: Mapping[Refusal, int] = {
    "": 200,
    "invalid-configuration": 422,
    "needs-restart": 409,
    "not-now": 503,
}


class Reload(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one reload. ``at``: seconds since the epoch. ``refusal``: its kind; ``not-now`` may pass."""

    at: float
    cause: Cause
    outcome: Outcome
    digest: str
    changes: Sequence[str] = ()
    restarted: Sequence[str] = ()
    faults: Sequence[Fault] = ()
    warnings: Sequence[str] = ()
    refusal: Refusal = ""

    @property
    def status(self) -> int:
        """Return the HTTP status of the answer to the caller that asked for the reload."""
        return STATUS_OF_REFUSAL[self.refusal]

    @property
    def summary(self) -> str:
        """For the audit."""
        return f"{self.outcome}, digest {self.digest}"


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

    async def judge(self, proposed: bytes) -> Judgement:
        """Of a text in YAML. Nothing is changed."""
