"""What ``/v1/config`` answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from app.api.http.moments import rfc3339
from app.api.http.views import View
from app.api.status.configured import Cause, Outcome
from app.errors import Fault


def _details(faults: Sequence[Fault]) -> list[str]:
    return [each.detail for each in faults]


class ReloadView(View):
    at: Annotated[str, BeforeValidator(rfc3339)] = Field(description="when, RFC 3339")
    cause: Cause = Field(
        description="its trigger: the start, SIGHUP, a change of the file, this API"
    )
    outcome: Outcome
    digest: str = Field(description="digest of the configuration in force afterwards")
    changes: list[str] = Field(description="changes by setting; values of secrets are hidden")
    restarted: list[str] = Field(description="restarted subscriptions")
    faults: Annotated[list[str], BeforeValidator(_details)] = Field(
        description="reasons of the refusal, each with its line"
    )
    warnings: list[str]


class ConfigurationState(View):
    """Digests cover only settings that may be shown: a changed secret does not change them."""

    source: str = Field(description="the file; empty without one")
    digest: str = Field(
        description="digest of the configuration in force; pods with the same configuration have "
        "the same digest"
    )
    taken: ReloadView = Field(description="the last one that was not refused, or the start")
    last: ReloadView


class ConfigurationView(ConfigurationState):
    configuration: dict[str, Any] = Field(
        description="every setting, including defaults; secrets are hidden, references are "
        "shown as written"
    )


class RemarkView(View):
    level: Literal["error", "warning"]
    setting: str
    line: int = Field(description="0: of no line")
    message: str
    cure: str


class PlannedChangeView(View):
    setting: str
    what: str = Field(description="added, removed, changed or moved")
    effect: Literal["live", "restart"]
    old: Any = Field(description="as it may be shown; null where there is none")
    new: Any = Field(description="as it may be shown; null where there is none")


class CheckView(BaseModel):
    """What is wrong, or looks wrong, with a proposed configuration."""

    valid: bool = Field(description="false: one remark is an error")
    remarks: list[RemarkView] = Field(description="errors before warnings, the first 1,000")
    more_remarks: int = Field(0, description="how many remarks are not listed")


class PlanView(View):
    """What a reload to a proposed configuration would change."""

    result: Literal["no-change", "changes", "needs-restart"] = Field(
        description="needs-restart: a reload would be refused"
    )
    digest: str = Field(description="digest of the proposed configuration")
    changes: list[PlannedChangeView] = Field(description="the first 1,000")
    more_changes: int = Field(0, description="how many changes are not listed")
    restarted: list[str] = Field(
        description="subscriptions that would end and continue at their position"
    )
    warnings: list[str] = Field(
        description="effects of the changes on events that wait, the first 1,000"
    )
    more_warnings: int = Field(0, description="how many warnings are not listed")
    remarks: list[RemarkView] = Field(description="warnings of the check, the first 1,000")
    more_remarks: int = Field(0, description="how many remarks are not listed")
