"""The protocol through which the API shows, checks and reloads the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from app.errors import Fault
from app.model.judgement import Judgement

Cause = Literal["start", "signal", "file", "api"]
"""The cause of a reload."""
Outcome = Literal["ok", "unchanged", "refused"]
Refusal = Literal["invalid-configuration", "needs-restart", "not-now"]
"""The reason why a reload was refused. After ``not-now``, the same file may be accepted
later."""

STATUS_OF_REFUSAL: Mapping[Refusal, int] = {
    "invalid-configuration": 422,
    "needs-restart": 409,
    "not-now": 503,
}


class ReloadResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one reload. ``at`` is the time in seconds since the epoch. ``digest`` is that of the
    configuration after the reload."""

    at: float
    cause: Cause
    outcome: Outcome
    digest: str
    changes: Sequence[str] = ()
    restarted: Sequence[str] = ()
    faults: Sequence[Fault] = ()
    warnings: Sequence[str] = ()
    refusal: Refusal | Literal[""] = ""

    @property
    def status(self) -> int:
        """Return the HTTP status of the answer to the caller that requested the reload."""
        return STATUS_OF_REFUSAL[self.refusal] if self.refusal else 200

    @property
    def summary(self) -> str:
        """Return the outcome and digest for the audit."""
        return f"{self.outcome}, digest {self.digest}"


class CurrentConfiguration(Protocol):
    """The current configuration of a service. ``last`` is the last reload. ``taken`` is the last reload that
    was not refused, or else the start of the process. ``taken_at`` is the monotonic time of ``taken`` in seconds."""

    source: str
    digest: str
    last: ReloadResult
    taken: ReloadResult
    taken_at: float

    @property
    def shown(self) -> Mapping[str, Any]:
        """Return every setting, with secrets hidden."""

    async def reload(self, cause: Cause) -> ReloadResult:
        """Read the file again and apply its changes."""

    async def judge(self, proposed: bytes) -> Judgement:
        """Check a proposed configuration in YAML and plan its changes. Nothing is applied."""
