"""The setting ``alerts``: channels to which Skybridge reports what needs a person.

A message is a CloudEvent of type ``dev.skybridge.alert``, shaped for its channel. Texts are templates over this event:
``{pointer:/text}`` is the whole message, ``{pointer:/title}`` its first line.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from app.model.duration import Duration
from app.model.operator_verdict import AlertCause
from app.model.outlet import Text
from app.model.route import Name, Strict
from app.model.secret import Secret
from app.model.webhook import SecretUrl, Signing, StaticHeaders

_URL = '; best "${env:NAME}" or "${file:/path}"'
_TEXT = "the message, a template; {pointer:/text} is the text of the alert"
_KEY = 'best "${env:NAME}" or "${file:/path}"'
SHORTEST = 1.0  # seconds between two messages of an alert


class SlackChannel(Strict):
    """A channel of Slack."""

    preset: Literal["slack"] = Field(description="a message by an incoming webhook of Slack")
    url: SecretUrl = Field(description=f"URL of the incoming webhook{_URL}")
    text: Text = Field("{pointer:/text}", description=_TEXT)


class TeamsChannel(Strict):
    """A channel of Microsoft Teams."""

    preset: Literal["teams"] = Field(description="a card by a workflow of Microsoft Teams")
    url: SecretUrl = Field(description=f"URL of the workflow{_URL}")
    text: Text = Field("{pointer:/text}", description=_TEXT)


class DiscordChannel(Strict):
    """A channel of Discord."""

    preset: Literal["discord"] = Field(description="a message by a webhook of Discord")
    url: SecretUrl = Field(description=f"URL of the webhook{_URL}")
    text: Text = Field("{pointer:/text}", description=_TEXT)


class PagerDutyChannel(Strict):
    """A service of PagerDuty. One incident is open as long as the alert has problems."""

    preset: Literal["pagerduty"] = Field(description="an incident by PagerDuty's Events API v2")
    url: SecretUrl = Field(
        "https://events.pagerduty.com", validate_default=True, description="URL of the Events API"
    )
    key: Secret = Field(description=f"the integration key (routing key); {_KEY}")


class JiraChannel(Strict):
    """An integration of Jira Service Management. One alert is open as long as the alert has problems."""

    preset: Literal["jira_service_management"] = Field(
        description="an alert of Jira Service Management"
    )
    url: SecretUrl = Field(
        "https://api.atlassian.com", validate_default=True, description="URL of the API"
    )
    key: Secret = Field(description=f"the API key of the integration; {_KEY}")


class CloudEventsChannel(Strict):
    """A webhook that takes CloudEvents."""

    preset: Literal["cloudevents"] = Field(
        description="the CloudEvent dev.skybridge.alert in structured mode"
    )
    url: SecretUrl = Field(description=f"URL of the webhook{_URL}")
    headers: StaticHeaders = Field({}, description="headers of every request, each with its value")
    signing: Signing | None = Field(None, description="sign requests by Standard Webhooks")


AlertChannel = Annotated[
    SlackChannel
    | TeamsChannel
    | DiscordChannel
    | PagerDutyChannel
    | JiraChannel
    | CloudEventsChannel,
    Field(discriminator="preset"),
]

ALL_BUT_PAUSED = tuple(each for each in get_args(AlertCause) if each != "paused")


class Alert(Strict):
    """The setting ``alerts[]``: what is reported to one channel, and how often."""

    name: Name = Field(description="name of the alert")
    to: AlertChannel = Field(description="channel that gets the messages")
    when: Annotated[tuple[AlertCause, ...], Field(min_length=1)] = Field(
        ALL_BUT_PAUSED,
        description="problems that are reported, by the names of verdicts; without it, all except paused, which "
        "an operator causes",
    )
    every: Annotated[Duration, Field(ge=SHORTEST)] = Field(
        "15m",
        validate_default=True,
        description="time between two messages about problems; what changes in between is in the next message",
    )
    remind: Duration = Field(
        "4h",
        validate_default=True,
        description="time after which problems that last are reported again; 0s: never",
    )
