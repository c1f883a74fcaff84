"""``/v1/config``: show the current configuration, check a proposed one, and reload the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from fastapi import Request, Response

from app.api.access.audit_trail import RELOAD
from app.api.access.operations import CallerDep, router
from app.api.access.parts import uses
from app.api.http import bodies
from app.api.http.bodies import json_answer
from app.api.status.configuration_answers import CheckView, ConfigurationView, PlanView, ReloadView
from app.api.status.configured import STATUS_OF_REFUSAL, CurrentConfiguration, Refusal
from app.errors import Fault, SenderError
from app.model.judgement import Judgement, Remark

ConfiguredDep = Annotated[CurrentConfiguration, uses(CurrentConfiguration)]

_TITLES: Mapping[Refusal, str] = {
    "invalid-configuration": "The configuration is invalid",
    "needs-restart": "A changed setting needs a restart",
    "not-now": "The file cannot be applied now",
}

LARGEST = 1 << 20  # the most bytes of a proposed configuration
_MEDIA_TYPES = ("application/yaml", "application/json")
_CONFIGURATION_BODY = {
    "requestBody": {
        "required": True,
        "description": "A configuration in the form of the file.",
        "content": {each: {"schema": {"type": "object"}} for each in _MEDIA_TYPES},
    }
}


routes = router("/v1", tags=["configuration"])


@routes.operation("GET /config", "configuration")
async def get(configured: ConfiguredDep) -> ConfigurationView:
    """Return every current setting. Secrets are hidden."""
    return ConfigurationView.of(configured, configuration=configured.shown)


@routes.operation("POST /config:reload", RELOAD, (409, 422, 503))
async def reload(configured: ConfiguredDep, by: CallerDep) -> ReloadView:
    """Read the configuration file again and apply its changes.

    The reload is refused and nothing changes if the file is invalid. The answer is then 422 and lists every
    fault with its line. It is 409 if a changed setting needs a restart, and names that setting. It is 503 if
    the store or another process of the service does not respond.
    """
    found = await configured.reload("api")
    by.annotate_audit(detail=found.summary)
    if found.refusal:
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
    """Check a proposed configuration and return errors and warnings with their lines. References such as
    `${env:NAME}` and `${file:/path}` are not resolved, and no files are read."""
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
    """Return what a reload to a proposed configuration would change. References are compared as text and
    never resolved, and secrets are not compared. An invalid configuration is answered 422 with its errors."""
    found = await configured.judge(await _proposed(request))
    if not found.valid:
        raise _refusal("invalid-configuration", _faults(found))
    plan = msgspec.structs.asdict(found)
    del plan["valid"]
    return json_answer(plan)


async def _proposed(request: Request) -> bytes:
    """Return the proposed configuration in the body of the request."""
    bodies.demand_type(request, *_MEDIA_TYPES)
    return await bodies.read_body(request, LARGEST)


def _faults(found: Judgement) -> list[Fault]:
    """Return the errors that the check lists, and one fault with the number of remarks that it leaves out."""
    faults = [_fault(each) for each in found.remarks if each.level == "error"]
    if found.more_remarks:
        faults.append(Fault("more", f"and {found.more_remarks} more"))
    return faults


def _fault(each: Remark) -> Fault:
    """Return a remark of the check as a fault."""
    where = f"line {each.line}: " if each.line else ""
    cure = f" Cure: {each.cure}" if each.cure else ""
    return Fault("invalid-setting", f"{where}{each.setting}: {each.message}{cure}", at=each.setting)


def _refusal(kind: Refusal, faults: Sequence[Fault]) -> SenderError:
    """Return the error with which a refused configuration is answered."""
    return SenderError(_TITLES[kind], status=STATUS_OF_REFUSAL[kind], code=kind, faults=faults)
