"""The problems of both listeners: those of brokers and the store, and those of any HTTP request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from app.problems.kind import ProblemKind

SharedCode = Literal[
    "bound-reached",
    "broker-refused",
    "broker-unavailable",
    "method-not-allowed",
    "not-authorised",
    "not-capable",
    "not-found",
    "other-origin",
    "publish-unknown",
    "record-too-large",
    "rejected",
    "store-unavailable",
    "unknown-topic",
    "unroutable",
    "unsupported-content-encoding",
    "unwritable",
]

SHARED: Mapping[SharedCode, ProblemKind] = {
    "bound-reached": ProblemKind(
        (503,),
        "A limit of Skybridge is reached: requests in flight, bytes of unfinished requests, disk space or rows.",
        "Repeat the request after Retry-After. If it happens often, raise the limit that the title names, or add gateways.",
    ),
    "broker-refused": ProblemKind(
        (500, 503),
        "The broker refuses the request, and refuses it again until a person changes something.",
        "Follow the detail, which has the message of the broker. Correct the broker or its configuration.",
    ),
    "broker-unavailable": ProblemKind(
        (503,),
        "The broker cannot be reached, or refuses for now. No event is known to be stored.",
        "Repeat the request after Retry-After. The operator starts the broker, or corrects its address or credentials: "
        "`skybridge check FILE --connect`. A spool accepts events meanwhile.",
    ),
    "method-not-allowed": ProblemKind(
        (405,),
        "The path does not accept this method.",
        "Use a method of the header Allow.",
    ),
    "not-authorised": ProblemKind(
        (401, 403, 503),
        "With 401, the admin listener needs a token. With 403 or 503, the broker does not permit the request to Skybridge.",
        "With 401, send a token of `server.admin` as `Authorization: Bearer TOKEN`. Otherwise give Skybridge's login the "
        "right at the broker.",
    ),
    "not-capable": ProblemKind(
        (409, 422, 501, 503),
        "The broker lacks the feature that the request needs, such as reading without consuming.",
        "Follow the detail, which names an alternative.",
    ),
    "not-found": ProblemKind(
        (404,),
        "The path does not exist.",
        "Post events to `/events` or `/events/ROUTE`, and webhooks to `/in/INTAKE`. `/docs` of the admin listener lists "
        "its paths.",
    ),
    "other-origin": ProblemKind(
        (403,),
        "A web page of another origin sent the request, and the listener accepts no requests of other pages.",
        "Send the request from a program that sends no Origin. At the events listener, `server.events.access: producers` "
        "accepts pages that send a credential.",
    ),
    "publish-unknown": ProblemKind(
        (503,),
        "The broker did not answer in time. The event may or may not be stored, and Skybridge does not send it again.",
        "Repeat the request with the same id. A consumer, or `deduplicate` of the route, recognises the repeat.",
    ),
    "record-too-large": ProblemKind(
        (413, 503),
        "The event is larger than the log accepts.",
        "Send less data, or raise the limit of the topic and `brokers.NAME.max_record`.",
    ),
    "rejected": ProblemKind(
        (422, 503),
        "A rule of the topic rejects the record, such as a schema, or a compacted topic that needs a key.",
        "Correct the event, or change the route or the rule of the topic.",
    ),
    "store-unavailable": ProblemKind(
        (503,),
        "The store did not answer or refused, because of a full disk, a lock or a time-out.",
        "Repeat the request. The operator starts the database, or frees its volume.",
    ),
    "unknown-topic": ProblemKind(
        (404, 422, 503),
        "The topic does not exist, or the subscription does not read it.",
        "Create the topic, or name another one. `skybridge topics list` shows all topics.",
    ),
    "unroutable": ProblemKind(
        (404, 503),
        "No queue of the RabbitMQ exchange accepts the record.",
        "Bind a queue to the exchange with a fitting routing key.",
    ),
    "unsupported-content-encoding": ProblemKind(
        (415,),
        "The Content-Encoding of the body is not supported.",
        "Send the body with a coding of the header Accept-Encoding, or without a coding.",
    ),
    "unwritable": ProblemKind(
        (422, 503),
        "The event cannot be a message of this broker, for example because of a header name.",
        "Change the part of the event that the detail names.",
    ),
}
