"""The settings of ``request: {preset: ...}``: what a publisher's API needs besides the event."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from app.model.outlet import Json, RequestTemplates, Text
from app.model.route import Strict

_KEY = 'best "${env:NAME}" or "${file:/path}"; over the API {secret: ...}'
_EVENT = {"attributes": "{$attributes}", "data": "{$data}"}


class SlackRequest(Strict):
    """The settings of a request that posts a message to a Slack channel by an incoming webhook."""

    preset: Literal["slack"] = Field(description="a message by an incoming webhook of Slack")
    text: Text = Field(description="the message, a template; Slack's markup in values is escaped")


class TeamsRequest(Strict):
    """The settings of a request that posts a message (an adaptive card) to a Microsoft Teams
    channel by a workflow."""

    preset: Literal["teams"] = Field(description="a card by a workflow of Microsoft Teams")
    text: Text = Field(description="the message, a template; values are plain text")
    title: Text | None = Field(None, description="a line in bold above the message, a template")


class DiscordRequest(Strict):
    """The settings of a request that posts a message to a Discord channel by a webhook. The message
    mentions no person."""

    preset: Literal["discord"] = Field(description="a message by a webhook of Discord")
    text: Text = Field(description="the message, a template; markdown in values is escaped")
    username: Text | None = Field(None, description="the name that the message shows as its author")


class PagerDutyRequest(Strict):
    """The settings of a request that sends an event to PagerDuty's Events API v2."""

    preset: Literal["pagerduty"] = Field(description="an event of PagerDuty's Events API v2")
    key: Text = Field(description=f"the integration key (routing key); {_KEY}")
    summary: Text = Field(description="what happened, in one line, a template")
    action: Literal["trigger", "acknowledge", "resolve"] = Field(
        "trigger", description="event action"
    )
    severity: Text = Field("error", description="critical, error, warning or info, a template")
    dedup: Text = Field("{source} {id}", description="the deduplication key, a template")
    source: Text = Field("{source}", description="what is affected, a template")
    details: Json = Field(_EVENT, description="further details: JSON with templates")


class JiraRequest(Strict):
    """The settings of a request that creates or closes an alert of Jira Service Management (before, Opsgenie)."""

    preset: Literal["jira_service_management"] = Field(
        description="an alert of Jira Service Management"
    )
    key: Text = Field(description=f"the API key of the integration; {_KEY}")
    message: Text = Field(description="title of the alert, a template")
    description: Text | None = Field(None, description="description of the alert, a template")
    action: Literal["create", "close"] = Field(
        "create", description="create an alert, or close the one with the alias"
    )
    alias: Text = Field("{source} {id}", description="the deduplication key, a template")
    source: Text = Field("{source}", description="what is affected, a template")
    priority: Text = Field("P3", description="P1 to P5, a template")
    details: Json = Field({}, description="further details: JSON with templates")


class ElasticsearchRequest(Strict):
    """The settings of a request that stores events as documents by Elasticsearch's bulk API. With
    ``batch``, one request has many documents."""

    preset: Literal["elasticsearch"] = Field(description="documents by Elasticsearch's bulk API")
    index: Text = Field(description="name of the index or data stream, a template")
    operation: Literal["create", "index"] = Field(
        "create", description="create: a document with the same id stays; index: it is replaced"
    )
    id: Text = Field("{source} {id}", description="id of the document, a template")
    document: Json = Field(
        {"@timestamp": "{time}", **_EVENT}, description="the document: JSON with templates"
    )


class SplunkRequest(Strict):
    """The settings of a request that sends events to Splunk's HTTP Event Collector. With ``batch``,
    one request has many events."""

    preset: Literal["splunk_hec"] = Field(description="events by Splunk's HTTP Event Collector")
    key: Text = Field(description=f"the token of the collector; {_KEY}")
    event: Json = Field(_EVENT, description="the event: JSON with templates")
    source: Text = Field("{source}", description="source, a template")
    sourcetype: Text = Field("cloudevents", description="source type, a template")
    host: Text | None = Field(None, description="host, a template")
    index: Text | None = Field(None, description="index, a template; without it, that of the token")


def _kind(value: object) -> str:
    name = value.get("preset") if isinstance(value, dict) else getattr(value, "preset", None)
    return "request" if name is None else str(name)


PresetRequest = (
    SlackRequest
    | TeamsRequest
    | DiscordRequest
    | PagerDutyRequest
    | JiraRequest
    | ElasticsearchRequest
    | SplunkRequest
)
BATCHED = (ElasticsearchRequest, SplunkRequest)
"""Presets that send several events in one request."""

RequestSetting = Annotated[
    Annotated[RequestTemplates, Tag("request")]
    | Annotated[SlackRequest, Tag("slack")]
    | Annotated[TeamsRequest, Tag("teams")]
    | Annotated[DiscordRequest, Tag("discord")]
    | Annotated[PagerDutyRequest, Tag("pagerduty")]
    | Annotated[JiraRequest, Tag("jira_service_management")]
    | Annotated[ElasticsearchRequest, Tag("elasticsearch")]
    | Annotated[SplunkRequest, Tag("splunk_hec")],
    Discriminator(_kind),
]
"""The setting ``request`` of a subscription."""
