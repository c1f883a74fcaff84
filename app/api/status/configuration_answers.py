"""The answers of ``/v1/config``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from app.api.http.moments import rfc3339
from app.api.http.views import CopyingView
from app.api.status.configured import Cause, Outcome
from app.errors import Fault


def _details(faults: Sequence[Fault]) -> list[str]:
    return [each.detail for each in faults]


class ReloadView(CopyingView):
    """The result of a reload."""

    at: Annotated[str, BeforeValidator(rfc3339)] = Field(description="time of the reload, RFC 3339")
    cause: Cause = Field(
        description="what caused it: the start, SIGHUP, a change of the file, or this API"
    )
    outcome: Outcome = Field(description="ok, unchanged or refused")
    digest: str = Field(description="digest of the configuration after the reload")
    changes: list[str] = Field(description="changes by setting; values of secrets are hidden")
    restarted: list[str] = Field(description="restarted subscriptions")
    faults: Annotated[list[str], BeforeValidator(_details)] = Field(
        description="reasons of the refusal, each with its line"
    )
    warnings: list[str] = Field(description="warnings about the configuration")


class ConfigurationState(CopyingView):
    """The current configuration and its reloads. Digests cover only settings that may be shown, so a change
    of a secret does not change a digest."""

    source: str = Field(description="path of the file; empty without a file")
    digest: str = Field(
        description="digest of the current configuration; processes with the same configuration have the same "
        "digest"
    )
    taken: ReloadView = Field(description="the last reload that was not refused, or the start")
    last: ReloadView = Field(description="the last reload, or the start")


class ConfigurationView(ConfigurationState):
    """The current configuration with all its settings."""

    configuration: dict[str, Any] = Field(
        description="every setting, including defaults. Secrets are hidden, and references are shown unresolved"
    )


class RemarkView(CopyingView):
    """An error or a warning about one setting."""

    level: Literal["error", "warning"] = Field(description="error or warning")
    setting: str = Field(description="path of the setting")
    line: int = Field(description="line of the setting; 0 if it has none")
    message: str = Field(description="what is wrong")
    cure: str = Field(description="how to repair it")


class PlannedChangeView(CopyingView):
    """A change of one setting."""

    setting: str = Field(description="path of the setting")
    what: str = Field(description="added, removed, changed or moved")
    effect: Literal["live", "restart"] = Field(
        description="restart if the change needs one; live if a reload applies it"
    )
    old: Any = Field(description="old value, secrets hidden; null if there is none")
    new: Any = Field(description="new value, secrets hidden; null if there is none")


class CheckView(BaseModel):
    """Errors and warnings of a proposed configuration."""

    valid: bool = Field(description="false if a remark is an error")
    remarks: list[RemarkView] = Field(description="errors before warnings, the first 1,000")
    more_remarks: int = Field(0, description="number of unlisted remarks")


class PlanView(CopyingView):
    """The changes that a reload to a proposed configuration would make."""

    result: Literal["no-change", "changes", "needs-restart"] = Field(
        description="needs-restart if a reload would be refused"
    )
    digest: str = Field(description="digest of the proposed configuration")
    changes: list[PlannedChangeView] = Field(description="the first 1,000")
    more_changes: int = Field(0, description="number of unlisted changes")
    restarted: list[str] = Field(
        description="subscriptions that would stop and continue at their position"
    )
    warnings: list[str] = Field(
        description="effects of the changes on waiting events, the first 1,000"
    )
    more_warnings: int = Field(0, description="number of unlisted warnings")
    remarks: list[RemarkView] = Field(description="warnings of the check, the first 1,000")
    more_remarks: int = Field(0, description="number of unlisted remarks")
