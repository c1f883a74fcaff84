"""The problems of the admin listener."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from app.problems.kind import ProblemKind

AdminCode = Literal[
    "bad-position",
    "bad-request",
    "bad-time",
    "broken",
    "csrf",
    "disabled",
    "empty-range",
    "id-taken",
    "invalid-configuration",
    "invalid-subscription",
    "made-by-file",
    "made-by-object",
    "misdirected",
    "missing-scope",
    "needs-restart",
    "no-such-dead-letter",
    "no-such-subscription",
    "no-worker",
    "not-called",
    "not-now",
    "not-one-event",
    "not-pulled",
    "not-replayable",
    "not-waiting",
    "other-id",
    "outside-binding",
    "paused",
    "paused-by-document",
    "position-out-of-range",
    "precondition-failed",
    "precondition-required",
    "session-over",
    "target-not-configurable",
    "too-large",
    "too-many-intervals",
    "too-many-subscriptions",
    "too-many-wrong-tokens",
    "topic-needed",
    "under-way",
    "unknown-alert",
    "unknown-broker",
    "unknown-partition",
    "unknown-producer",
    "unknown-replay",
    "unknown-source",
    "unknown-subscription",
    "unsupported-media-type",
]

ADMIN: Mapping[AdminCode, ProblemKind] = {
    "bad-position": ProblemKind(
        (400,),
        "The position names no partition, or is not one of this stream.",
        "Write `earliest`, `latest`, a time, or `PARTITION@POSITION`. Send Last-Event-ID as the stream gave it.",
    ),
    "bad-request": ProblemKind(
        (400, 422),
        "A parameter or the body is not valid.",
        "Correct what the detail names. The OpenAPI document describes each parameter.",
    ),
    "bad-time": ProblemKind(
        (400,),
        "The text is not a time.",
        "Write a time such as `2026-01-01T00:00:00Z`, or milliseconds since 1970.",
    ),
    "broken": ProblemKind(
        (409,),
        "The subscription is stored, but its document does not fit the configuration, so it cannot run.",
        "Change the subscription or the configuration as the detail names.",
    ),
    "csrf": ProblemKind(
        (403,),
        "A change by the session of a browser lacks the token against forged requests.",
        "Send `csrf` of `GET /v1/session` as the header X-CSRF-Token. A bearer token needs none.",
    ),
    "disabled": ProblemKind(
        (409,),
        "The target answered 410, so the subscription sends nothing.",
        "Repair the target, then resume the subscription.",
    ),
    "empty-range": ProblemKind(
        (422,), "The range of the replay has no records.", "Choose an earlier start or a later end."
    ),
    "id-taken": ProblemKind(
        (409,),
        "A subscription with this id exists already.",
        "Choose another id, or replace the subscription by PUT with its ETag.",
    ),
    "invalid-configuration": ProblemKind(
        (422,),
        "The configuration has errors, so nothing is changed.",
        "Correct the lines that `faults` lists. `skybridge check FILE` shows the same.",
    ),
    "invalid-subscription": ProblemKind(
        (422,),
        "The document of the subscription has faults, so nothing is stored.",
        "Correct the members that `faults` lists.",
    ),
    "made-by-file": ProblemKind(
        (409,),
        "The configuration file declares the subscription, so the API cannot change it.",
        "Change the subscription in the file. The API can pause and resume it.",
    ),
    "made-by-object": ProblemKind(
        (409,),
        "An object of Kubernetes declares the subscription, so the API cannot change it.",
        "Change the object that the detail names. The API can pause and resume the subscription.",
    ),
    "misdirected": ProblemKind(
        (421,),
        "The admin listener has no token, so it accepts only loopback names in Host.",
        "Send the request to 127.0.0.1 or localhost, or set `server.admin.token`.",
    ),
    "missing-scope": ProblemKind(
        (403,),
        "The token lacks the scope of the operation.",
        "Use a token with the scope that `scope` names.",
    ),
    "needs-restart": ProblemKind(
        (409,),
        "A changed setting has no effect before a restart, so nothing is changed.",
        "Restart the service, or undo the change of the settings that the faults name.",
    ),
    "no-such-dead-letter": ProblemKind(
        (404,),
        "No dead letter has this id. It may have been redriven or discarded.",
        "List the dead letters: `skybridge dead-letters list`.",
    ),
    "no-such-subscription": ProblemKind(
        (409,),
        "The dead letters belong to a subscription that does not exist.",
        "Create the subscription again and redrive them, or discard them.",
    ),
    "no-worker": ProblemKind(
        (504,),
        "No worker answered in time.",
        "Check with `skybridge status` that a worker runs this subscription, then repeat the request.",
    ),
    "not-called": ProblemKind(
        (409,),
        "The subscription has a pull queue, so Skybridge calls no target.",
        "Fetch its events: `skybridge pull ID`.",
    ),
    "not-now": ProblemKind(
        (503,),
        "The configuration could not be checked or applied now.",
        "Repeat the request. The detail names the part that did not respond.",
    ),
    "not-one-event": ProblemKind(
        (400,),
        "The request must have exactly one event.",
        "Send one event. Batches go to `/events`.",
    ),
    "not-pulled": ProblemKind(
        (409,),
        "The subscription has a target, so it has no pull queue.",
        "Follow its events at `/v1/subscriptions/ID/events`, or create a subscription with `sink: {pull: {}}`.",
    ),
    "not-replayable": ProblemKind(
        (409,),
        "The records of the subscription cannot be read again.",
        "Follow the detail. A pull subscription is replayed by a second one that starts earlier.",
    ),
    "not-waiting": ProblemKind(
        (404,),
        "The event or key does not wait at the subscription.",
        "Look where the event is: `skybridge find ID`.",
    ),
    "other-id": ProblemKind(
        (400,),
        "The id in the document is not the id in the path.",
        "Send the same id twice, or none in the document.",
    ),
    "outside-binding": ProblemKind(
        (403,),
        "The token is bound to some subscriptions or topics, and the request needs others.",
        "Use a token that is bound to them, or to none.",
    ),
    "paused": ProblemKind(
        (409,),
        "The subscription is paused, so nothing is delivered.",
        "Resume it: `skybridge subscriptions resume ID`.",
    ),
    "paused-by-document": ProblemKind(
        (409,),
        "The document of the subscription has `paused: true`, which a resume does not change.",
        "Change the document.",
    ),
    "position-out-of-range": ProblemKind(
        (416,),
        "The log does not have this position.",
        "Choose a position between those that `skybridge topics offsets` shows.",
    ),
    "precondition-failed": ProblemKind(
        (412,),
        "The subscription was changed since the caller read it.",
        "Read it again, and repeat the change with the new ETag.",
    ),
    "precondition-required": ProblemKind(
        (428,), "The change lacks If-Match.", "Send the ETag of a GET as If-Match."
    ),
    "session-over": ProblemKind(
        (401,), "The session of this browser has ended.", "Log in again at `/console/`."
    ),
    "target-not-configurable": ProblemKind(
        (403,),
        "The token may not send events to this target, because it lacks the scope data.",
        "Choose a target of `webhooks.configurable_targets`, or use a token with the scope data.",
    ),
    "too-large": ProblemKind(
        (413,),
        "The document is too large, or the request would evaluate too many filters.",
        "Send a smaller document, or fewer events at a time.",
    ),
    "too-many-intervals": ProblemKind(
        (422,),
        "The count would have more intervals than one answer may have.",
        "Choose longer intervals or a later start.",
    ),
    "too-many-subscriptions": ProblemKind(
        (409,),
        "The API has created as many subscriptions as `limits.subscriptions` allows.",
        "Delete a subscription, or raise the limit.",
    ),
    "too-many-wrong-tokens": ProblemKind(
        (429,),
        "The client address sent ten wrong tokens within a minute.",
        "Wait as long as Retry-After asks. The right token works at once.",
    ),
    "topic-needed": ProblemKind(
        (422,),
        "The subscription reads several topics, and a position belongs to one.",
        "Name the topic in the request.",
    ),
    "under-way": ProblemKind(
        (409,),
        "A replay of the subscription is running.",
        "Wait for its end, or cancel it: `skybridge subscriptions replay ID --cancel`.",
    ),
    "unknown-alert": ProblemKind(
        (404,),
        "The configuration has no alert of this name.",
        "Name an alert of the configuration. A new alert is added to the section `alerts`.",
    ),
    "unknown-broker": ProblemKind(
        (404,),
        "The configuration has no broker of this name.",
        "Choose a broker that the detail lists.",
    ),
    "unknown-partition": ProblemKind(
        (404,),
        "The topic has no partition of this number.",
        "Look at the partitions: `skybridge topics show TOPIC`.",
    ),
    "unknown-producer": ProblemKind(
        (404,),
        "The configuration has no producer of this name.",
        "Look at the producers: `skybridge producers list`.",
    ),
    "unknown-replay": ProblemKind(
        (404,),
        "The subscription has no running replay of this number.",
        "List its replays: `GET /v1/subscriptions/ID/replays`.",
    ),
    "unknown-source": ProblemKind(
        (404,),
        "The source of the explanation is not `BROKER/TOPIC` with a configured broker.",
        "Write `BROKER/TOPIC`.",
    ),
    "unknown-subscription": ProblemKind(
        (404,),
        "The subscription does not exist, or the form of the CloudEvents draft cannot express it.",
        "List the subscriptions: `skybridge subscriptions list`.",
    ),
    "unsupported-media-type": ProblemKind(
        (415,),
        "The Content-Type of the request is not one that the operation accepts.",
        "Send the type that the detail names.",
    ),
}
