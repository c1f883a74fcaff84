"""The answers of the events listener as values, without bytes of HTTP/1.1.

The answer 202 has no body, because some senders repeat a request if the body of the answer is no CloudEvent.
Every refusal is problem JSON (RFC 9457) that lists every fault. Every 503 carries Retry-After.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import msgspec

from app.access.caller import QUOTA_EXCEEDED, QuotaExceeded
from app.access.quota import Quota
from app.errors import Fault, SenderError
from app.intakes.compiled import RepeatedBody
from app.intakes.verification import Unverified
from app.problems import ProblemCode, problem_type

AnswerHeaders = tuple[tuple[bytes, bytes], ...]

METHODS = b"POST, PUT, OPTIONS"
CODINGS = b"gzip, deflate, identity"

_PROBLEM_TYPE = (b"content-type", b"application/problem+json")
_JSON_TYPE = (b"content-type", b"application/json")
_to_json = msgspec.json.encode


class HttpAnswer(msgspec.Struct, frozen=True):
    """An HTTP answer: its status, headers and body. Header names are in lower case, and headers of framing
    are not included."""

    status: int
    headers: AnswerHeaders = ()
    body: bytes = b""


_DUPLICATE = (b"skybridge-duplicate", b"true")

ACCEPTED = HttpAnswer(202)
ACCEPTED_BEFORE = HttpAnswer(202, (_DUPLICATE,))


def problem(
    status: int,
    code: ProblemCode,
    title: str,
    *,
    detail: str = "",
    faults: Sequence[Fault] = (),
    headers: AnswerHeaders = (),
    members: dict[str, Any] | None = None,
) -> HttpAnswer:
    """Return a problem document as an answer. ``members`` has further members that RFC 9457 does not
    define.
    """
    document = {
        "type": problem_type(code),
        "title": title,
        "status": status,
        "detail": detail or " ".join(fault.detail for fault in faults) or title,
        "faults": faults,
        **(members or {}),
    }
    return HttpAnswer(status, (_PROBLEM_TYPE, *headers), _to_json(document))


def from_sender_error(error: SenderError) -> HttpAnswer:
    """Return the answer to a request that is at fault.

    A header of a 415 lists the supported codings (RFC 9110 15.5.16). A 429 has the time to wait, and a 401
    the required scheme.
    """
    if isinstance(error, QuotaExceeded):
        wait, reset = max(1, math.ceil(error.wait)), math.ceil(error.reset)
        return _quota_exceeded(error.title, error.faults, error.quota, error.remaining, wait, reset)
    headers: AnswerHeaders = ()
    if error.code == UNSUPPORTED_CODING:
        headers = ((b"accept-encoding", CODINGS),)
    elif isinstance(error, Unverified):
        headers = ((b"www-authenticate", error.challenge.encode()),)
    elif isinstance(error, RepeatedBody):
        headers = ((b"retry-after", _seconds(error.wait)),)
    return problem(error.status, error.code, error.title, faults=error.faults, headers=headers)


@lru_cache(maxsize=256)
def _quota_exceeded(
    title: str, faults: Sequence[Fault], quota: Quota, remaining: int, wait: int, reset: int
) -> HttpAnswer:
    """Return 429 with ``Retry-After`` and the fields of draft-ietf-httpapi-ratelimit-headers-10.

    ``wait`` and ``reset`` are in seconds. Answers are cached, because a sender that does not slow down gets
    the same answer often.
    """
    headers = (
        (b"retry-after", b"%d" % wait),
        (b"ratelimit-policy", b'"events";q=%d;w=%d' % (quota.burst, math.ceil(quota.window))),
        (b"ratelimit", b'"events";r=%d;t=%d' % (remaining, reset)),
    )
    return problem(429, QUOTA_EXCEEDED, title, faults=faults, headers=headers)


def _seconds(wait: float) -> bytes:
    """Return a wait in whole seconds, at least one, as the text of a header."""
    return str(max(1, math.ceil(wait))).encode()


def receipts(entries: Sequence[dict[str, Any]], *, duplicate: bool = False) -> HttpAnswer:
    """Return 200 with the receipt of each event. The sender has asked for receipts (RFC 7240
    ``return=representation``).

    With ``duplicate``, all events had been stored before.
    """
    headers = (_JSON_TYPE, (b"preference-applied", b"return=representation"))
    return HttpAnswer(200, (*headers, _DUPLICATE) if duplicate else headers, _to_json(entries))


def unavailable(
    code: ProblemCode, title: str, retry_after: float, *, events: Sequence[dict[str, Any]] = ()
) -> HttpAnswer:
    """Return 503 with Retry-After. ``retry_after`` is in seconds. ``events`` has the result of each event."""
    seconds = _seconds(retry_after)
    members = {"events": events} if events else None
    return problem(503, code, title, headers=((b"retry-after", seconds),), members=members)


def busy(title: str) -> HttpAnswer:
    """Return 503 because a limit of this process is reached. The sender may retry after one second."""
    return unavailable("bound-reached", title, 1.0)


def method_not_allowed(method: str) -> HttpAnswer:
    return problem(
        405,
        "method-not-allowed",
        f"{method[:20]} is not allowed at /events: POST or PUT an event",
        headers=((b"allow", METHODS),),
    )


def only_posts(method: str) -> HttpAnswer:
    return problem(
        405,
        "method-not-allowed",
        f"{method[:20]} is not allowed at an intake: POST",
        headers=((b"allow", b"POST"),),
    )


def not_found() -> HttpAnswer:
    title = "Not found: post events to /events or /events/{route}, webhooks to /in/{intake}"
    return problem(404, "not-found", title)


def problem_code(answer: HttpAnswer) -> str:
    """Return the code of a problem document."""
    document = msgspec.json.decode(answer.body, type=dict[str, Any])
    return str(document["type"]).rpartition(":")[2]


def refusal(status: int, code: ProblemCode, title: str) -> HttpAnswer:
    return problem(status, code, f"{HTTPStatus(status).phrase}: {title}")


UNSUPPORTED_CODING: ProblemCode = "unsupported-content-encoding"
BODY_TOO_LARGE = refusal(413, "body-too-large", "the body is too large")
HEAD_TOO_LARGE = refusal(431, "headers-too-large", "the head is too large")
TARGET_TOO_LONG = refusal(414, "target-too-long", "the request target is longer than 65,535 bytes")
TOO_SLOW = refusal(408, "request-timeout", "the request did not arrive in time")
MALFORMED = refusal(400, "malformed-request", "this is not HTTP/1.1")
NO_HOST = refusal(400, "malformed-request", "HTTP/1.1 asks for exactly one Host field")
NO_LENGTH = refusal(
    400,
    "malformed-request",
    "a request of HTTP/1.0 with a body needs Content-Length (RFC 1945 8.3)",
)
NO_CODING = refusal(400, "malformed-request", "HTTP/1.0 has no Transfer-Encoding (RFC 9112 6.1)")
TRANSFER_CODING = refusal(
    400, "unsupported-transfer-encoding", "the only transfer coding is chunked"
)
OTHER_ORIGIN = problem(
    403,
    "other-origin",
    "A web page of another origin must not send events",
    faults=[
        Fault(
            "other-origin",
            "The request comes from a web page, and its Origin is not loopback. Any page in a browser of this machine "
            "can reach this listener. Cure: send it from another program, which sends no Origin; or set "
            "server.events.access: producers, and at an intake another verify than none.",
            "header origin",
        )
    ],
)
TUNNEL = method_not_allowed("CONNECT")
BUG = refusal(500, "internal", "a defect of Skybridge; the log has it")
