"""HTTP receivers that answer like Slack, Teams, Discord, PagerDuty, Jira, Elasticsearch and Splunk,
by their documentation.

Each receiver is a function from a request to the raw bytes of an HTTP response. It rejects a malformed
request as the product does. Words in the event make it reject the event (``BUSY``, ``GONE``, ``BAD``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from webhook_target import Received, status

JSON = "Content-Type: application/json"
BUSY, GONE, BAD = "busy", "gone", "bad"
"""Words in an event that make a receiver reject it: once with a rate limit, for good, or with an error in a 200."""


def slack(asked: Callable[[str], str]) -> Callable[[Received], bytes]:
    """Return a receiver like Slack's incoming webhooks, which answer in plain words
    (docs.slack.dev)."""

    def answer(request: Received) -> bytes:
        try:
            text = json.loads(request.body)["text"]
        except (ValueError, KeyError):
            return status(400, body=b"invalid_payload")
        match asked(text):
            case "busy":
                return status(429, "Retry-After: 1", body=b"rate_limited")
            case "gone":
                return status(404, body=b"no_service")
            case "bad":
                return status(400, body=b"invalid_payload")
        return status(200, body=b"ok")

    return answer


def teams(asked: Callable[[str], str]) -> Callable[[Received], bytes]:
    """Return a receiver like those of Microsoft Teams.

    A workflow answers 202. The older connector answers 200, with the error of the channel in words.
    """

    def answer(request: Received) -> bytes:
        message = json.loads(request.body)
        (attachment,) = message["attachments"]
        card = attachment["content"]
        if message["type"] != "message" or card["type"] != "AdaptiveCard":
            return status(400, JSON, body=b'{"error":{"code":"InvalidTemplate"}}')
        text = card["body"][-1]["inlines"][0]["text"]
        match asked(text):
            case "busy":
                words = b"Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429"
                return status(200, body=words)
            case "gone":
                return status(404, JSON, body=b'{"error":{"code":"WorkflowNotFound"}}')
            case "bad":
                words = b"Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 403"
                return status(200, body=words)
        return status(202)

    return answer


def discord(asked: Callable[[str], str]) -> Callable[[Received], bytes]:
    """Return a receiver like Discord's webhooks: 204, or 429 with ``retry_after`` in the body, in
    seconds."""

    def answer(request: Received) -> bytes:
        message = json.loads(request.body)
        if message["allowed_mentions"] != {"parse": []} or not message["content"]:
            return status(
                400, JSON, body=b'{"code":50006,"message":"Cannot send an empty message"}'
            )
        match asked(message["content"]):
            case "busy":
                return status(
                    429, JSON, body=b'{"message":"limited","retry_after":0.4,"global":false}'
                )
            case "gone":
                return status(404, JSON, body=b'{"message":"Unknown Webhook","code":10015}')
            case "bad":
                return status(400, JSON, body=b'{"code":50035,"message":"Invalid Form Body"}')
        return status(204)

    return answer


def pagerduty(asked: Callable[[str], str]) -> Callable[[Received], bytes]:
    """Return a receiver like PagerDuty's Events API v2, which accepts with 202
    (developer.pagerduty.com)."""

    def answer(request: Received) -> bytes:
        event = json.loads(request.body)
        if event.get("event_action") == "resolve" and event.get("dedup_key"):
            return status(202, JSON, body=b'{"status":"success","message":"Event processed"}')
        faults = {"routing_key", "event_action", "payload"} - set(event)
        faults |= {"summary", "source", "severity"} - set(event.get("payload", {}))
        if faults or request.path != "/hook/v2/enqueue":
            return status(400, JSON, body=b'{"status":"invalid event"}')
        match asked(event["payload"]["summary"]):
            case "busy":
                return status(429, "Retry-After: 1")
            case "gone" | "bad":
                return status(400, JSON, body=b'{"status":"invalid event","errors":["bad"]}')
        return status(202, JSON, body=b'{"status":"success","message":"Event processed"}')

    return answer


def jira(asked: Callable[[str], str]) -> Callable[[Received], bytes]:
    """Return a receiver like Jira's integration events: 202, or 403 for a wrong key
    (developer.atlassian.com)."""

    def answer(request: Received) -> bytes:
        alert = json.loads(request.body)
        if request.header("authorization") != "GenieKey key-of-the-test":
            return status(403, JSON, body=b'{"message":"Could not authenticate"}')
        if request.path.endswith("/close?identifierType=alias"):
            return status(202, JSON, body=b'{"result":"Request will be processed"}')
        if "message" not in alert or request.path != "/hook/jsm/ops/integration/v2/alerts":
            return status(422, JSON, body=b'{"message":"Message can not be empty."}')
        match asked(alert["message"]):
            case "busy":
                return status(
                    429,
                    "Retry-After: 1",
                    JSON,
                    body=b'{"message":"You are making too many requests!"}',
                )
            case "gone" | "bad":
                return status(422, JSON, body=b'{"message":"Request body is not processable"}')
        return status(202, JSON, body=b'{"result":"Request will be processed"}')

    return answer


def elasticsearch(asked: Callable[[str], str]) -> Callable[[Received], bytes]:
    """Return a receiver like Elasticsearch's bulk API: 200 with a result for each item
    (elastic.co)."""
    documents: set[str] = set()

    def item(action: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
        identity = action["create"]["_id"]
        match asked(json.dumps(document)):
            case "busy":
                return {
                    "create": {
                        "_id": identity,
                        "status": 429,
                        "error": {"type": "es_rejected_execution_exception"},
                    }
                }
            case "gone" | "bad":
                return {
                    "create": {
                        "_id": identity,
                        "status": 400,
                        "error": {"type": "mapper_parsing_exception"},
                    }
                }
        created = identity not in documents
        documents.add(identity)
        return {"create": {"_id": identity, "status": 201 if created else 409}}

    def answer(request: Received) -> bytes:
        if request.header("content-type") != "application/x-ndjson" or not request.body.endswith(
            b"\n"
        ):
            return status(406)
        lines = [json.loads(line) for line in request.body.splitlines()]
        items = [item(*pair) for pair in zip(lines[::2], lines[1::2], strict=True)]
        errors = any(each["create"]["status"] >= 400 for each in items)
        return status(
            200, JSON, body=json.dumps({"took": 1, "errors": errors, "items": items}).encode()
        )

    return answer


def splunk(asked: Callable[[str], str]) -> Callable[[Received], bytes]:
    """Return a receiver like Splunk's HTTP Event Collector: a code in each body (help.splunk.com)."""

    def answer(request: Received) -> bytes:
        if request.header("authorization") != "Splunk key-of-the-test":
            return status(403, JSON, body=b'{"text":"Invalid token","code":4}')
        text = request.body.decode()
        decoder, at, events = json.JSONDecoder(), 0, []
        while at < len(text):
            event, at = decoder.raw_decode(text, at)
            events.append(event)
        wanted = {asked(json.dumps(event)) for event in events}
        if "busy" in wanted:
            return status(503, JSON, body=b'{"text":"Server is busy","code":9}')
        if wanted & {"gone", "bad"}:
            return status(
                400, JSON, body=b'{"text":"Incorrect index","code":7,"invalid-event-number":0}'
            )
        return status(200, JSON, body=b'{"text":"Success","code":0}')

    return answer
