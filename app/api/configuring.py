"""``/v1/config``: the configuration in force, a proposed one beside it, and the word to read the file again."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request

from app.api import bodies
from app.api.answers import CheckView, ConfigurationView, PlanView, ReloadView, RemarkView
from app.api.audit_trail import RELOAD
from app.api.operations import By, router
from app.api.running import Here, Reload
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


routes = router("/v1", tags=["configuration"])


@routes.operation("GET /config", "configuration")
async def get(running: Here) -> ConfigurationView:
    """Every setting in force, secrets hidden."""
    return ConfigurationView.of(running.configured, configuration=running.configured.shown)


@routes.operation("POST /config:reload", RELOAD, (409, 422, 503))
async def reload(running: Here, by: By) -> ReloadView:
    """Reload the file and apply its changes. The reload is refused, and nothing changes, if the
    file is invalid (422, every fault with its line) or a setting needs a restart (409, by name).
    503 if the store, or another process of the service, does not answer."""
    found = await running.configured.reload("api")
    by.tell(detail=summary(found))
    if found.outcome == "refused":
        raise _refusal(found)
    return ReloadView.of(found)


@routes.operation(
    "POST /config:check", "check_configuration", (413, 415), openapi_extra=_CONFIGURATION_BODY
)
async def check(running: Here, request: Request) -> CheckView:
    """Check a proposed configuration: every error and warning with its line. Its references
    `${env:NAME}` and `${file:/path}` are not resolved, and no file is looked for."""
    remarks = (await running.configured.judge(await _proposed(request))).remarks
    return CheckView(valid=not _errors(remarks), remarks=remarks)


@routes.operation(
    "POST /config:plan", "plan_configuration", (413, 415, 422), openapi_extra=_CONFIGURATION_BODY
)
async def plan(running: Here, request: Request) -> PlanView:
    """Show what a reload to a proposed configuration would change. References are compared as their
    text and never resolved, and secrets are not compared. 422 with every error."""
    found = await running.configured.judge(await _proposed(request))
    if faults := list(map(_fault, _errors(found.remarks))):
        title, status = _REFUSALS["invalid-configuration"]
        raise SenderError(title, status=status, code="invalid-configuration", faults=faults)
    return found


async def _proposed(request: Request) -> bytes:
    bodies.demand_type(request, *_MEDIA_TYPES)
    return await bodies.bounded(request, LARGEST)


def _errors(remarks: Sequence[RemarkView]) -> list[RemarkView]:
    return [each for each in remarks if each.level == "error"]


def _fault(each: RemarkView) -> Fault:
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
