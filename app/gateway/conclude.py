"""Pure. Combine the results of the events of one request into one answer.

====================================== ===========================================================
all stored                             202, or 200 with receipts if the sender asked for them;
                                       marked as a duplicate if all had been stored before
some or none stored                    503 with the result of each event, so that the sender
                                       repeats only the failed ones
none stored, all too large for a log   413: the same bytes will never be accepted
none stored, every record itself is    422: its topic rejects it (no key, its time, a schema, a
refused for good                       policy), or its broker cannot hold it
====================================== ===========================================================

An event that one of its targets has stored is never 422, because the sender would take it for lost. A refusal
that an operator must resolve, such as an unknown topic or missing rights, is also answered 503. The sender is
not at fault then, and must keep its event. Such an answer has a longer Retry-After than that for a temporary
failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from app.errors import BrokerError, BrokerRefused, Fault, SenderError
from app.gateway.answers import (
    ACCEPTED,
    ACCEPTED_BEFORE,
    HttpAnswer,
    problem,
    receipts,
    unavailable,
)
from app.interfaces import PublishResult
from app.model.receipt import Receipt
from app.problems import ProblemCode
from app.routing.publications import Publication

Publications = list[tuple[int, Publication]]
"""The publications of a request, each with the index of its event. An event may have several."""

EventResult = tuple[int, Publication, PublishResult]
"""The index of an event, one of its publications, and the result of that publication."""

_RETRY_AFTER = 1.0  # seconds, if the broker names no other wait
_RETRY_AFTER_OPERATOR = 30.0  # seconds, for a failure that a person must resolve
_TOO_LARGE: ProblemCode = "record-too-large"


def conclude(results: Sequence[EventResult], wants_receipts: bool) -> HttpAnswer:
    """Return one answer for all results of a request. ``wants_receipts`` matters only if every
    event is stored.
    """
    errors = [result for _, _, result in results if isinstance(result, BrokerError)]
    if not errors:
        duplicate = all(_is_duplicate(result) for _, _, result in results)
        if wants_receipts:
            return receipts([_entry(each) for each in results], duplicate=duplicate)
        return ACCEPTED_BEFORE if duplicate else ACCEPTED
    if len(errors) == len(results) and all(map(_is_final, errors)):
        return _refused(results, errors)
    stored = len(results) - len(errors)
    code = errors[0].problem if not stored else "partly-stored"
    title = f"{stored} of {len(results)} stored" if stored else "Not stored"
    retry_after = max(_retry_after(error) for error in errors)
    open_ = {index for index, _, result in results if not _is_final(result)}
    events = [_with_status(each, final=each[0] not in open_) for each in results]
    return unavailable(code, title, retry_after, events=events)


def join_faults(errors: Sequence[tuple[int, SenderError]]) -> SenderError:
    """Combine the errors of several events of a batch into one error. Each fault has the index of
    its event.
    """
    faults = [fault for index, error in errors for fault in _faults_at(index, error)]
    first = errors[0][1]
    if all(error.code == first.code for _, error in errors):
        return SenderError(first.title, status=first.status, code=first.code, faults=faults)
    return SenderError("Several events were not accepted", code="invalid-batch", faults=faults)


def _faults_at(index: int, error: SenderError) -> Sequence[Fault]:
    if not error.faults:
        return (Fault(error.code, error.title, index=index),)
    return [msgspec.structs.replace(fault, index=index) for fault in error.faults]


def _entry(each: EventResult) -> dict[str, Any]:
    """Return the JSON object for one event at one target. It is a receipt without nested members."""
    index, publication, result = each
    entry: dict[str, Any] = {"index": index, "route": publication.route}
    if isinstance(result, BrokerError):
        return {**entry, "broker": publication.broker, "topic": publication.topic}
    entry |= msgspec.structs.asdict(result)
    if entry.pop("repeat") == "duplicate":
        entry["duplicate"] = True
    return entry


def _is_duplicate(result: PublishResult) -> bool:
    return isinstance(result, Receipt) and result.repeat == "duplicate"


def _is_final(result: PublishResult) -> bool:
    """Return True if the target will never accept this record."""
    return isinstance(result, BrokerRefused) and result.of_record


def _with_status(each: EventResult, *, final: bool) -> dict[str, Any]:
    """Return ``{index, status, receipt | cause}`` for one event at one target.

    An event is stored if all its entries have status 202. ``final`` is True if all targets of the event
    refuse it permanently.
    """
    index, _, result = each
    place = _entry(each)
    del place["index"]
    if not isinstance(result, BrokerError):
        return {"index": index, "status": 202, "receipt": place}
    cause = {
        "code": result.problem, "detail": str(result), "retryable": result.retryable, **place,
    }  # fmt: skip
    status = 413 if result.problem == _TOO_LARGE else 422 if final else 503
    return {"index": index, "status": status, "cause": cause}


def _refused(results: Sequence[EventResult], errors: Sequence[BrokerError]) -> HttpAnswer:
    codes = [error.problem for error in errors]
    faults = [
        Fault(code, str(result), index=index if len(results) > 1 else None)
        for code, (index, _, result) in zip(codes, results, strict=True)
    ]
    if set(codes) == {_TOO_LARGE}:
        return problem(413, _TOO_LARGE, "The event is too large for its log", faults=faults)
    code = next(code for code in codes if code != _TOO_LARGE)
    return problem(422, code, "The event is refused by its log", faults=faults)


def _retry_after(error: BrokerError) -> float:
    if error.retry_after is not None:
        return error.retry_after
    return _RETRY_AFTER if error.retryable else _RETRY_AFTER_OPERATOR
