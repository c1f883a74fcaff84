"""``/v1/config``: the configuration in force, a proposed one beside it, and the word to read the file again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from fastapi import Request, Response

from app.api.access.audit_trail import RELOAD
from app.api.access.operations import By, router
from app.api.access.parts import uses
from app.api.http import bodies
from app.api.http.bodies import json_answer
from app.api.status.configuration_answers import CheckView, ConfigurationView, PlanView, ReloadView
from app.api.status.configured import STATUS_OF_REFUSAL, Configured, Refusal
from app.errors import Fault, SenderError
from app.model.judgement import Judgement, Remark

ConfiguredDep = Annotated[Configured, uses(Configured)]

_TITLES: Mapping[Refusal, str] = {
    "invalid-configuration": "The file is refused",
    "needs-restart": "Needs a restart",
    "not-now": "The file cannot be applied now",
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


routes = router("/v1", tags=["configuration"])


@routes.operation("GET /config", "configuration")
async def get(configured: ConfiguredDep) -> ConfigurationView:
    """Every setting in force, secrets hidden."""
    return ConfigurationView.of(configured, configuration=configured.shown)


@routes.operation("POST /config:reload", RELOAD, (409, 422, 503))
async def reload(configured: ConfiguredDep, by: By) -> ReloadView:
    """Reload the file and apply its changes. The reload is refused, and nothing changes, if the
    file is invalid (422, every fault with its line) or a setting needs a restart (409, by name).
    503 if the store, or another process of the service, does not answer."""
    found = await configured.reload("api")
    by.tell(detail=found.summary)
    if found.outcome == "refused":
        raise _refusal(found.refusal, found.faults)
    return ReloadView.of(found)


@routes.operation(
    "POST /config:check",
    "check_configuration",
    (413, 415, 503),
    response_model=CheckView,
    openapi_extra=_CONFIGURATION_BODY,
)
async def check(configured: ConfiguredDep, request: Request) -> Response:
    """Check a proposed configuration: errors and warnings with their lines. Its references
    `${env:NAME}` and `${file:/path}` are not resolved, and no file is looked for."""
    found = await configured.judge(await _proposed(request))
    return json_answer(
        {"valid": found.valid, "remarks": found.remarks, "more_remarks": found.more_remarks}
    )


@routes.operation(
    "POST /config:plan",
    "plan_configuration",
    (413, 415, 422, 503),
    response_model=PlanView,
    openapi_extra=_CONFIGURATION_BODY,
)
async def plan(configured: ConfiguredDep, request: Request) -> Response:
    """Show what a reload to a proposed configuration would change. References are compared as their
    text and never resolved, and secrets are not compared. 422 with the errors."""
    found = await configured.judge(await _proposed(request))
    if not found.valid:
        raise _refusal("invalid-configuration", _faults(found))
    plan = msgspec.structs.asdict(found)
    del plan["valid"]
    return json_answer(plan)


async def _proposed(request: Request) -> bytes:
    bodies.demand_type(request, *_MEDIA_TYPES)
    return await bodies.bounded(request, LARGEST)


def _faults(found: Judgement) -> list[Fault]:
    """Return the listed errors, and the number of the remarks that are not listed."""
    faults = [_fault(each) for each in found.remarks if each.level == "error"]
    if found.more_remarks:
        faults.append(Fault("more", f"and {found.more_remarks} more"))
    return faults


def _fault(each: Remark) -> Fault:
    where = f"line {each.line}: " if each.line else ""
    cure = f" Cure: {each.cure}" if each.cure else ""
    return Fault("invalid-setting", f"{where}{each.setting}: {each.message}{cure}", at=each.setting)


def _refusal(kind: Refusal, faults: Sequence[Fault]) -> SenderError:
    return SenderError(_TITLES[kind], status=STATUS_OF_REFUSAL[kind], code=kind, faults=faults)
