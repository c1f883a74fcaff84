"""``/v1/alerts``: list the alerts, and test a channel."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, Field

from app.api.access.operations import router
from app.api.access.parts import uses
from app.api.asked.alerts import Alerting, AlertView, SentView
from app.api.http.problems import RequestRefused

AlertingDep = Annotated[Alerting, uses(Alerting)]

routes = router("/v1/alerts", tags=["operators"])


class AlertsView(BaseModel):
    """The alerts of the configuration."""

    alerts: list[AlertView] = Field(description="alerts in the order of the configuration")


@routes.operation("GET", "alerts")
async def alerts(alerting: AlertingDep) -> AlertsView:
    """Return the alerts and what they have sent."""
    return AlertsView(alerts=list(alerting.views()))


@routes.operation("POST /{name}:test", "test_alert", (404, 503))
async def test(
    alerting: AlertingDep,
    name: Annotated[str, Path(description="name of the alert")],
) -> SentView:
    """Send a test message to the channel of an alert now, and return the channel's answer."""
    found = await alerting.test(name)
    if found is None:
        known = ", ".join(each.name for each in alerting.views())
        others = f"The alerts are: {known}" if known else "The configuration has no alerts"
        raise RequestRefused(404, "unknown-alert", f"alert {name[:127]} does not exist. {others}")
    return found
