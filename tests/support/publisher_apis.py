"""Receivers that answer as publishers document: Slack, Teams, Discord, PagerDuty, Jira, Elasticsearch and Splunk.

Each is a function from a request to a raw answer of HTTP. A request that the publisher would refuse for its form is
refused here in the same way. The words in ``order`` make the receiver refuse an event for its content.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from webhook_target import Received, status

JSON = "Content-Type: application/json"
BUSY, GONE, BAD = "busy", "gone", "bad"
"""What an event asks of a receiver: a rate limit once, a refusal for good, a refusal in a successful answer."""


def slack(asked: Callable[[str], str]) -> Callable[[Received], bytes]:
    """Incoming webhooks answer with plain words (docs.slack.dev, incoming webhooks: handling errors)."""

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
    """A workflow answers 202; the connector before it answers 200 with the error of the channel in words."""

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
    """A webhook answers 204; 429 has ``retry_after`` in its body, in seconds with a fraction."""

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
    """The Events API v2 accepts with 202 (developer.pagerduty.com, events API v2)."""

    def answer(request: Received) -> bytes:
        event = json.loads(request.body)
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
    """Integration events accept with 202; a wrong key is 403 (developer.atlassian.com, integration events)."""

    def answer(request: Received) -> bytes:
        alert = json.loads(request.body)
        if request.header("authorization") != "GenieKey key-of-the-test":
            return status(403, JSON, body=b'{"message":"Could not authenticate"}')
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
    """The bulk API answers 200 with a result for each item (elastic.co, bulk API)."""
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
    """The HTTP Event Collector answers with a code in its body (help.splunk.com, HEC troubleshooting)."""

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
