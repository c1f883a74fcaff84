"""The problems of the events listener and its intakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from app.problems.kind import ProblemKind

EventsCode = Literal[
    "bad-rate",
    "bad-topic",
    "batch-too-large",
    "body-too-large",
    "broken-content-encoding",
    "conflicting-key",
    "format-not-installed",
    "headers-too-large",
    "internal",
    "invalid-batch",
    "invalid-data",
    "invalid-event",
    "issuer-unavailable",
    "key-mapper-failed",
    "malformed-request",
    "malformed-signature",
    "missing-credential",
    "missing-key",
    "missing-signature",
    "no-route",
    "not-a-cloudevent",
    "not-allowed",
    "not-authenticated",
    "not-representable",
    "partly-stored",
    "quota-exceeded",
    "repeated-body",
    "request-timeout",
    "target-too-long",
    "unknown-intake",
    "unknown-route",
    "unmappable",
    "unsupported-charset",
    "unsupported-format",
    "unsupported-transfer-encoding",
    "untimely-signature",
    "wrong-credential",
    "wrong-signature",
]

EVENTS: Mapping[EventsCode, ProblemKind] = {
    "bad-rate": ProblemKind(
        (400,),
        "A consent to webhook requests has a WebHook-Allowed-Rate that is no positive number.",
        "Send the deliveries per minute as a positive number, or `*`.",
    ),
    "bad-topic": ProblemKind(
        (400,),
        "The topic of the route is a template, and the attributes of the event make no valid topic name.",
        "Send the attribute that the fault names, or give the placeholder of the template a default.",
    ),
    "batch-too-large": ProblemKind(
        (413,),
        "The batch has more events than `limits.max_batch`.",
        "Send several smaller batches, or raise the limit.",
    ),
    "body-too-large": ProblemKind(
        (413,),
        "The body is larger than `limits.body`, before or after its Content-Encoding is removed.",
        "Send less data, or raise the limit.",
    ),
    "broken-content-encoding": ProblemKind(
        (400,),
        "The body is not in the coding that Content-Encoding names.",
        "Compress the body as the header promises, or omit the header.",
    ),
    "conflicting-key": ProblemKind(
        (400,),
        "The request has several different record keys, such as one in a header and another one in the query.",
        "Send one key.",
    ),
    "format-not-installed": ProblemKind(
        (415,),
        "The library of the event format is not installed.",
        "Install Skybridge with the extra `formats`, or send JSON.",
    ),
    "headers-too-large": ProblemKind(
        (431,),
        "The request line and the headers together are too large.",
        "Send fewer or shorter headers.",
    ),
    "internal": ProblemKind(
        (500,),
        "Skybridge has a defect. Whether the event is stored is unknown.",
        "Report the entry of the service's log. Repeat the request with the same id.",
    ),
    "invalid-batch": ProblemKind(
        (400,),
        "Several events of the batch are refused for different reasons. No event of the batch is stored.",
        "Correct the events that `faults` lists by their index.",
    ),
    "invalid-data": ProblemKind(
        (422,),
        "The data does not match the JSON Schema of its route.",
        "Correct the data as `faults` lists, or change the schema.",
    ),
    "invalid-event": ProblemKind(
        (400,),
        "The event is not a valid CloudEvent.",
        "Correct the event. `faults` lists every fault with its place and the clause of the specification.",
    ),
    "issuer-unavailable": ProblemKind(
        (503,),
        "The keys of the token's issuer could not be fetched, so the token can be neither accepted nor refused.",
        "Repeat the request after Retry-After. The operator checks that Skybridge reaches the issuer.",
    ),
    "key-mapper-failed": ProblemKind(
        (503,),
        "The operator's own key mapper raised an error or returned no key. No event of the request is stored.",
        "Repeat the request after the operator repaired the mapper. The service's log has the error.",
    ),
    "malformed-request": ProblemKind(
        (400,),
        "The request is not valid HTTP.",
        "Correct the client. The title names the broken rule.",
    ),
    "malformed-signature": ProblemKind(
        (401,),
        "The signature of the webhook, its id or its timestamp is not in the form of the intake's scheme.",
        "Set the `verify` of the intake to the scheme that the publisher uses.",
    ),
    "missing-credential": ProblemKind(
        (401,),
        "The webhook has no credential, and its intake needs one.",
        "Configure the publisher to send the credential in the header that the fault names.",
    ),
    "missing-key": ProblemKind(
        (400,),
        "The route needs a record key, and the event gives none.",
        "Send the attribute, the data or the header that the fault names, or change `key` of the route.",
    ),
    "missing-signature": ProblemKind(
        (401,),
        "The webhook has no signature, and its intake needs one.",
        "Configure the secret at the publisher, or set the `verify` of the intake to the scheme that it uses.",
    ),
    "no-route": ProblemKind(
        (422,),
        "No route accepts this event.",
        "Send the event that a route expects, or add a route. `skybridge explain` shows why each route refused it.",
    ),
    "not-a-cloudevent": ProblemKind(
        (400,),
        "The request has neither the media type of an event nor `ce-` headers.",
        "Send an event in binary, structured or batch mode. A webhook that is no CloudEvent goes to an intake.",
    ),
    "not-allowed": ProblemKind(
        (403,),
        "The producer is known, and may not send this event or use this route.",
        "Send an event that `producers[].may` allows, or change its rights.",
    ),
    "not-authenticated": ProblemKind(
        (401,),
        "The request has no key, token or client certificate of a producer.",
        "Send the credential of a producer, such as `Authorization: Bearer KEY`. The fault names the exact reason.",
    ),
    "not-representable": ProblemKind(
        (422,),
        "The event is valid, but the format of its target cannot hold it unchanged.",
        "Change the attribute that the fault names, or the format of the route.",
    ),
    "partly-stored": ProblemKind(
        (503,),
        "Some events of the request are stored, and others are not.",
        "Repeat the events that are not stored. `events` has the result of each.",
    ),
    "quota-exceeded": ProblemKind(
        (429,),
        "The producer, the intake or the client address has used up its quota.",
        "Repeat the request after Retry-After, or raise the quota.",
    ),
    "repeated-body": ProblemKind(
        (429,),
        "The intake accepted the same signed body as several events already, and its signature covers only the body.",
        "Wait as long as Retry-After asks. If the publisher repeats equal bodies on purpose, set `max_age: 0s` at the "
        "intake.",
    ),
    "request-timeout": ProblemKind(
        (408,),
        "The request did not arrive in time.",
        "Repeat the request on a faster connection, or raise the time-out under `timeouts`.",
    ),
    "target-too-long": ProblemKind(
        (414,), "The path and query are too long.", "Send a shorter path and query."
    ),
    "unknown-intake": ProblemKind(
        (404,),
        "No intake has the name in the path.",
        "Correct the path, or add the intake to the configuration.",
    ),
    "unknown-route": ProblemKind(
        (404,),
        "No route has the name in the path.",
        "Correct the path, or add the route to the configuration.",
    ),
    "unmappable": ProblemKind(
        (422,),
        "The webhook is verified, but the templates of the intake make no event of it.",
        "Change `event` of the intake, so that it fits the values that the faults name.",
    ),
    "unsupported-charset": ProblemKind(
        (415,), "The charset of the document is not supported.", "Send the document in UTF-8."
    ),
    "unsupported-format": ProblemKind(
        (415,),
        "Skybridge cannot read the event format of the content type.",
        "Send a format that the title lists, or the event in binary mode.",
    ),
    "unsupported-transfer-encoding": ProblemKind(
        (400,),
        "The transfer coding is not `chunked`.",
        "Send the body with Content-Length or chunked.",
    ),
    "untimely-signature": ProblemKind(
        (401,),
        "The signed time of the webhook is too far from the clock of this machine.",
        "Set the clocks. If the publisher repeats old requests, raise `max_age` of the intake.",
    ),
    "wrong-credential": ProblemKind(
        (401,),
        "The credential of the webhook is not that of its intake.",
        "Configure the same credential at the publisher and at the intake.",
    ),
    "wrong-signature": ProblemKind(
        (401,),
        "No signature of the webhook matches a secret of its intake.",
        "Configure the same secret at the publisher and at the intake. A proxy must not change the body.",
    ),
}
