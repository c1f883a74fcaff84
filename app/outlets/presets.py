"""The requests and answers of publishers that people send to: one table.

=========================  =======================================  =================================================
preset                     request                                  besides the rules of delivery
=========================  =======================================  =================================================
slack                      incoming webhook                         404: dead letter, the webhook is gone
teams                      workflow, an adaptive card               a 200 that reports an error: retry, or dead letter
discord                    webhook, mentions off                    404: dead letter; ``retry_after`` of a 429
pagerduty                  Events API v2                            202 is success
jira_service_management    integration alerts                       202 is success; 429 waits
elasticsearch              bulk API, newline-delimited              a 200 is concluded item by item
splunk_hec                 HTTP Event Collector                     ``code`` 0 is success
=========================  =======================================  =================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from types import MappingProxyType
from typing import Any, NamedTuple

from app.delivery.outcomes import AttemptOutcome
from app.model.outlet import SecretText, SecretValue
from app.model.outlet_presets import (
    DiscordRequest,
    ElasticsearchRequest,
    JiraRequest,
    PagerDutyRequest,
    PresetRequest,
    SlackRequest,
    SplunkRequest,
    TeamsRequest,
)
from app.outlets.places import Markup, Optional, Text
from app.outlets.success import Judge, TargetAnswer, delivered, refused, retried, value_at

NDJSON = "application/x-ndjson"
JSON = "application/json"
_TOO_MANY = 429
_OK = range(200, 300)
_FAILS = range(500, 600)
_CONFLICT = 409
_LONGEST = 86_400  # seconds that a body may ask to wait
_NONE: Mapping[str, object] = MappingProxyType({})

_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_DISCORD = re.compile(r"[\\*_~`|>\[\]<#@]")
_TEAMS_ERROR = re.compile(rb"HTTP error (\d{3})")


class PublisherApi(NamedTuple):
    """The request and the answers of a publisher.

    Attributes:
        documents: returns the JSON documents of one event from the settings. If there are several, each is followed
            by a line end.
        path: path that follows the one of ``sink``, unless that ends with it.
        target: by the settings and ``path``: the path, a template, and parameters of the query.
        headers: further headers, by the settings.
        media_type: content type of the request.
        markup: escaping of the strings in members of these names.
        judge: what answers mean, beyond the rules of delivery.
        wait: seconds that an answer asks to wait in its body; None if it does not.
    """

    documents: Callable[[Any], Sequence[object]]
    path: str = ""
    target: Callable[[Any, str], tuple[Text, Sequence[tuple[str, str]]]] = lambda _, path: (
        path,
        (),
    )
    headers: Callable[[Any], Mapping[str, Text]] = lambda _settings: {}
    media_type: str = JSON
    markup: Mapping[str, Markup] = MappingProxyType({})
    judge: Judge | None = None
    wait: Callable[[TargetAnswer], int | None] | None = None


def _slack(settings: SlackRequest) -> Sequence[object]:
    return ({"text": settings.text},)


def _teams(settings: TeamsRequest) -> Sequence[object]:
    """Return an adaptive card with plain texts, because a ``TextRun`` does not support markdown."""
    title = [] if settings.title is None else [_teams_line(settings.title, bold=True)]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [*title, _teams_line(settings.text)],
    }
    content_type = "application/vnd.microsoft.card.adaptive"
    return ({"type": "message", "attachments": [{"contentType": content_type, "content": card}]},)


def _teams_line(text: Text, *, bold: bool = False) -> object:
    run = {"type": "TextRun", "text": text, **({"weight": "Bolder"} if bold else {})}
    return {"type": "RichTextBlock", "inlines": [run]}


def _discord(settings: DiscordRequest) -> Sequence[object]:
    name = {} if settings.username is None else {"username": settings.username}
    return ({"content": settings.text, "allowed_mentions": {"parse": []}, **name},)


def _pagerduty(settings: PagerDutyRequest) -> Sequence[object]:
    event: dict[str, object] = {
        "routing_key": settings.key,
        "event_action": settings.action,
        "dedup_key": settings.dedup,
    }
    payload = {
        "summary": settings.summary,
        "source": settings.source,
        "severity": settings.severity,
        "timestamp": Optional("{time}"),
        "custom_details": _event(settings, "details"),
    }
    return ({**event, "payload": payload} if settings.action == "trigger" else event,)


def _jira(settings: JiraRequest) -> Sequence[object]:
    if settings.action == "close":
        note = {} if settings.description is None else {"note": settings.description}
        return ({"source": settings.source, **note},)
    alert: dict[str, object] = {
        "message": settings.message,
        "alias": settings.alias,
        "source": settings.source,
        "priority": settings.priority,
        "details": settings.details,
    }
    if settings.description is not None:
        alert["description"] = settings.description
    return (alert,)


def _jira_target(settings: JiraRequest, path: str) -> tuple[Text, Sequence[tuple[str, str]]]:
    """Return path and query. An alert is closed by its alias."""
    if settings.action == "create":
        return path, ()
    return _between(f"{path}/", settings.alias, "/close"), (("identifierType", "alias"),)


def _elasticsearch(settings: ElasticsearchRequest) -> Sequence[object]:
    action = {settings.operation: {"_index": settings.index, "_id": settings.id}}
    return action, _event(settings, "document", {"@timestamp": Optional("{time}")})


def _splunk(settings: SplunkRequest) -> Sequence[object]:
    further = {"host": settings.host, "index": settings.index}
    event: dict[str, object] = {
        "time": Optional("{time:%s}"),
        "source": settings.source,
        "sourcetype": settings.sourcetype,
        "event": _event(settings, "event"),
    }
    return ({**event, **{name: text for name, text in further.items() if text is not None}},)


def _event(settings: PresetRequest, name: str, further: Mapping[str, object] = _NONE) -> object:
    """Return the document that a setting gives. Without the setting, return one of the whole event; the event may
    lack data or time."""
    if name in settings.model_fields_set:
        return getattr(settings, name)
    return {**further, "attributes": "{$attributes}", "data": Optional("{$data}")}


def _between(prefix: str, text: Text, suffix: str = "") -> Text:
    """Return a text between two others. Its secrets stay secrets."""
    match text:
        case SecretValue(secret=secret):
            return SecretText(pieces=(prefix, secret, suffix))
        case SecretText(pieces=pieces):
            return SecretText(pieces=(prefix, *pieces, suffix))
    return f"{prefix}{text}{suffix}"


def _gone(*statuses: int) -> Judge:
    """Return a judge for which these statuses refuse the event for good."""

    def judge(answer: TargetAnswer, _events: int) -> Sequence[AttemptOutcome] | None:
        if answer.status in statuses:
            return (refused(f"status-{answer.status}", answer.status),)
        return None

    return judge


def _judge_teams(answer: TargetAnswer, _events: int) -> Sequence[AttemptOutcome] | None:
    """Judge a 200 whose text reports an error of the channel."""
    found = _TEAMS_ERROR.search(answer.body) if answer.status in _OK else None
    if found is None:
        return None
    status = int(found[1])
    code = f"answer-{status}"
    if status == _TOO_MANY or status in _FAILS:
        return (retried(code, answer.status),)
    return (refused(code, answer.status),)


def _judge_bulk(answer: TargetAnswer, events: int) -> Sequence[AttemptOutcome] | None:
    """Judge the items of a bulk request. A conflict of ``create`` means that the document exists already."""
    if answer.status not in _OK:
        return None
    document = answer.document()
    if value_at(document, "/errors") is False:
        return (delivered(answer.status),)
    items = value_at(document, "/items")
    if not isinstance(items, list) or len(items) != events:
        return (retried("answer-not-met", answer.status),)
    return [_of_item(item) for item in items]


def _of_item(item: object) -> AttemptOutcome:
    action, result = next(iter(item.items())) if isinstance(item, dict) and item else ("", {})
    status = value_at(result, "/status")
    if not isinstance(status, int):
        return retried("answer-not-met", 200)
    if status in _OK or (status == _CONFLICT and action == "create"):
        return delivered(status)
    if status == _TOO_MANY or status in _FAILS:
        return retried(f"item-{status}", status)
    return refused(f"item-{status}", status)


def _judge_splunk(answer: TargetAnswer, _events: int) -> Sequence[AttemptOutcome] | None:
    if answer.status not in _OK:
        return None
    if value_at(answer.document(), "/code") == 0:
        return (delivered(answer.status),)
    return (retried("answer-not-met", answer.status),)


def _discord_wait(answer: TargetAnswer) -> int | None:
    """Return the seconds of ``retry_after``, which may be a fraction, rounded up."""
    seconds = value_at(answer.document(), "/retry_after")
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return max(1, ceil(seconds)) if is_number and 0 <= seconds <= _LONGEST else None


def _escape_slack(text: str) -> str:
    return text.translate(_SLACK)


def _escape_discord(text: str) -> str:
    return _DISCORD.sub(lambda found: "\\" + found[0], text)


PRESETS: Mapping[type[PresetRequest], PublisherApi] = MappingProxyType({
    SlackRequest: PublisherApi(_slack, markup={"text": _escape_slack}, judge=_gone(404)),
    TeamsRequest: PublisherApi(_teams, judge=_judge_teams),
    DiscordRequest: PublisherApi(
        _discord, markup={"content": _escape_discord}, judge=_gone(404), wait=_discord_wait
    ),
    PagerDutyRequest: PublisherApi(_pagerduty, path="/v2/enqueue"),
    JiraRequest: PublisherApi(
        _jira,
        path="/jsm/ops/integration/v2/alerts",
        target=_jira_target,
        headers=lambda settings: {"authorization": _between("GenieKey ", settings.key)},
    ),
    ElasticsearchRequest: PublisherApi(
        _elasticsearch, path="/_bulk", media_type=NDJSON, judge=_judge_bulk
    ),
    SplunkRequest: PublisherApi(
        _splunk,
        path="/services/collector/event",
        headers=lambda settings: {"authorization": _between("Splunk ", settings.key)},
        judge=_judge_splunk,
    ),
})  # fmt: skip
