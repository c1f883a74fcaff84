"""The configuration in force and its reloads, as answers show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

from app.api.configured import Cause, Configured, Outcome, Reload


class ReloadView(BaseModel):
    at: str = Field(description="when, RFC 3339")
    cause: Cause = Field(
        description="what asked for it: the start, SIGHUP, the file itself, this API"
    )
    outcome: Outcome
    digest: str = Field(description="of the configuration in force afterwards")
    changes: list[str] = Field(description="by setting; values of secrets are not told")
    anew: list[str] = Field(description="subscriptions that ended and began anew")
    faults: list[str] = Field(description="why it was refused, each with its line")
    warnings: list[str]


class ConfigurationState(BaseModel):
    """Digests are of what may be shown: a secret that changed does not change them."""

    source: str = Field(description="the file; empty without one")
    digest: str = Field(description="of what is in force; pods that agree have the same")
    taken: ReloadView = Field(description="the last one that was not refused, or the start")
    last: ReloadView


class ConfigurationView(ConfigurationState):
    configuration: dict[str, Any] = Field(
        description="every setting, defaults too; secrets hidden, references as references"
    )


def state(configured: Configured) -> ConfigurationState:
    return ConfigurationState(
        source=configured.source,
        digest=configured.digest,
        taken=view_of(configured.taken),
        last=view_of(configured.last),
    )


def view_of(found: Reload) -> ReloadView:
    moment = datetime.fromtimestamp(found.at, UTC).isoformat(timespec="milliseconds")
    return ReloadView(
        at=moment.replace("+00:00", "Z"),
        cause=found.cause,
        outcome=found.outcome,
        digest=found.digest,
        changes=list(found.changes),
        anew=list(found.anew),
        faults=[each.detail for each in found.faults],
        warnings=list(found.warnings),
    )
