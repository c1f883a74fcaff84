"""``/v1/config``: the configuration in force, a proposed one beside it, and the word to read the file again."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import Request
from pydantic import BaseModel, Field

from app.api import bodies
from app.api.answers import ConfigurationView, ReloadView, View
from app.api.audit_trail import RELOAD
from app.api.operations import By, router
from app.api.problems import Refused
from app.api.running import Here, Proposal, Reload, Remark
from app.errors import Fault, SenderError

_REFUSALS = {
    "invalid-configuration": ("The file is refused", 422),
    "needs-restart": ("Needs a restart", 409),
    "not-now": ("The file cannot be applied now", 503),
}

LARGEST = 1 << 20  # bytes of a proposed configuration
_MEDIA_TYPES = ("application/yaml", "application/json")
_CONFIGURATION_BODY = {
    "requestBody": {
        "required": True,
        "description": "A configuration, as in the file.",
        "content": {each: {"schema": {"type": "object"}} for each in _MEDIA_TYPES},
    }
}


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


routes = router("/v1", tags=["configuration"])


@routes.get("/config", operation_id="configuration")
async def get(running: Here) -> ConfigurationView:
    """Every setting in force, secrets hidden."""
    return ConfigurationView.of(running.configured, configuration=running.configured.shown)


@routes.post(
    "/config:reload",
    operation_id=RELOAD,
    responses=Refused.responses(409, 422, 503),
)
async def reload(running: Here, by: By) -> ReloadView:
    """Reload the file and apply its changes. The reload is refused, and nothing changes, if the
    file is invalid (422, every fault with its line) or a setting needs a restart (409, by name).
    503 if the store, or another process of the service, does not answer."""
    found = await running.configured.reload("api")
    by.tell(detail=summary(found))
    if found.outcome == "refused":
        raise _refusal(found)
    return ReloadView.of(found)


class CheckView(BaseModel):
    """What is wrong, or looks wrong, with a proposed configuration."""

    valid: bool = Field(description="false: one remark is an error")
    remarks: list[RemarkView]


class PlanView(View):
    """What a reload to a proposed configuration would change."""

    result: Literal["no-change", "changes", "needs-restart"] = Field(
        description="needs-restart: a reload would be refused"
    )
    digest: str = Field(description="digest of the proposed configuration")
    changes: list[PlannedChangeView]
    anew: list[str] = Field(
        description="subscriptions that would end and continue at their position"
    )
    warnings: list[str] = Field(description="effects of the changes on events that wait")
    remarks: list[RemarkView] = Field(description="warnings of the check")


@routes.post(
    "/config:check",
    operation_id="check_configuration",
    responses=Refused.responses(413, 415),
    openapi_extra=_CONFIGURATION_BODY,
)
async def check(running: Here, request: Request) -> CheckView:
    """Check a proposed configuration: every error and warning with its line. Its references
    `${env:NAME}` and `${file:/path}` are not resolved, and no file is looked for."""
    found = await running.configured.judge(await _proposed(request))
    return CheckView.model_validate(
        {"valid": found.valid, "remarks": found.remarks}, from_attributes=True
    )


@routes.post(
    "/config:plan",
    operation_id="plan_configuration",
    responses=Refused.responses(413, 415, 422),
    openapi_extra=_CONFIGURATION_BODY,
)
async def plan(running: Here, request: Request) -> PlanView:
    """Show what a reload to a proposed configuration would change. References are compared as their
    text and never resolved, and secrets are not compared. 422 with every error."""
    found = await running.configured.judge(await _proposed(request))
    if not found.valid:
        title, status = _REFUSALS["invalid-configuration"]
        faults = [_fault(each) for each in found.remarks if each.level == "error"]
        raise SenderError(title, status=status, code="invalid-configuration", faults=faults)
    return PlanView.of(found, result=_result(found))


async def _proposed(request: Request) -> bytes:
    bodies.demand_type(request, *_MEDIA_TYPES)
    return await bodies.bounded(request, LARGEST)


def _result(found: Proposal) -> str:
    if any(each.effect == "restart" for each in found.changes):
        return "needs-restart"
    return "changes" if found.changes else "no-change"


def _fault(each: Remark) -> Fault:
    where = f"line {each.line}: " if each.line else ""
    cure = f" Cure: {each.cure}" if each.cure else ""
    return Fault("invalid-setting", f"{where}{each.setting}: {each.message}{cure}", at=each.setting)


def status_of(found: Reload) -> int:
    return _REFUSALS[found.refusal][1] if found.refusal else 200


def summary(found: Reload) -> str:
    """For the audit."""
    return f"{found.outcome}, digest {found.digest}"


def _refusal(found: Reload) -> SenderError:
    title, status = _REFUSALS[found.refusal]
    return SenderError(title, status=status, code=found.refusal, faults=found.faults)
