"""``/v1/config``: the configuration in force, and the word to read its file again."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.answers import ConfigurationView, ReloadView
from app.api.problems import Refused
from app.api.running import Here, Reload
from app.errors import SenderError

_REFUSALS = {
    "invalid-configuration": ("The file is refused", 422),
    "needs-restart": ("Needs a restart", 409),
    "not-now": ("The file cannot be applied now", 503),
}


routes = APIRouter(prefix="/v1", tags=["configuration"])


@routes.get("/config", operation_id="configuration")
async def get(running: Here) -> ConfigurationView:
    """Every setting in force, secrets hidden."""
    return ConfigurationView.of(running.configured, configuration=running.configured.shown)


@routes.post(
    "/config:reload",
    operation_id="reload_configuration",
    responses=Refused.responses(409, 422, 503),
)
async def reload(running: Here) -> ReloadView:
    """Reload the file and apply its changes. The reload is refused, and nothing changes, if the
    file is invalid (422, every fault with its line) or a setting needs a restart (409, by name).
    503 if the store, or another process of the service, does not answer."""
    found = await running.configured.reload("api")
    if found.outcome == "refused":
        raise _refusal(found)
    return ReloadView.of(found)


def _refusal(found: Reload) -> SenderError:
    title, status = _REFUSALS[found.refusal]
    return SenderError(title, status=status, code=found.refusal, faults=found.faults)
