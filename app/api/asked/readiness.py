"""The readiness of each role, as probes and the status ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pydantic import BaseModel, Field


class RoleReadiness(BaseModel):
    ready: bool
    causes: list[str] = Field(description="causes, each with its cure")


class Readiness(Protocol):
    async def readiness(self) -> Mapping[str, RoleReadiness]:
        """Return the readiness of each role that this process runs."""
