"""The protocol through which the probes and ``/status`` read the readiness of each role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pydantic import BaseModel, Field, SkipValidation


class RoleReadiness(BaseModel):
    """The readiness of one role of a process."""

    # Not validated, so that a ``Cause`` keeps its subject.

    ready: bool = Field(description="true if the role is ready")
    causes: list[SkipValidation[str]] = Field(
        description="why the role is not ready, each cause with its cure"
    )


class ReadinessSource(Protocol):
    """A provider of the readiness of each role of this process."""

    async def readiness(self) -> Mapping[str, RoleReadiness]:
        """Return the readiness of each role that this process runs."""
