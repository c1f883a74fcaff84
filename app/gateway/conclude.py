"""The fates of the events of one request, as one answer. Pure.

=====================================  ===========================================================
all stored                             202, or 200 with receipts where they were asked for; marked
                                       as a duplicate where all had been stored before
some or none stored                    503 with the fate of each, so that only those that failed
                                       need be sent again
none stored, all too large for a log   413: the same bytes will never pass
none stored, every record itself is    422: its topic rejects it (no key, its time, a schema, a policy),
refused for good                       or its broker cannot hold it
=====================================  ===========================================================

An event that one of its targets has stored is never 422, because the sender would take it for lost. What
a broker refuses until a person acts (an unknown topic, missing rights) is 503 as well: the sender did nothing
wrong, and its event must not be thrown away; it is told to come back later than for a passing fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from app.errors import BrokerError, BrokerRefused, Fault, SenderError
from app.gateway.answers import (
    ACCEPTED,
    ACCEPTED_BEFORE,
    Answer,
    problem,
    receipts,
    unavailable,
)
from app.interfaces import PublishResult
from app.model.receipt import Receipt
from app.routing.publications import Publication

Publications = list[tuple[int, Publication]]
"""The index of an event in its request, and one place for it: an event may have several."""

Fate = tuple[int, Publication, PublishResult]

_RETRY_AFTER = 1.0  # seconds, where the broker gives no other
_RETRY_AFTER_OPERATOR = 30.0  # for what will not pass by itself
_TOO_LARGE = "record-too-large"


def conclude(fates: Sequence[Fate], wants_receipts: bool) -> Answer:
    """One answer for all; ``wants_receipts`` matters only when every event is stored."""
    errors = [result for _, _, result in fates if isinstance(result, BrokerError)]
    if not errors:
        duplicate = all(_is_duplicate(result) for _, _, result in fates)
        if wants_receipts:
            return receipts([_entry(fate) for fate in fates], duplicate=duplicate)
        return ACCEPTED_BEFORE if duplicate else ACCEPTED
    if len(errors) == len(fates) and all(map(_is_final, errors)):
        return _refused(fates, errors)
    stored = len(fates) - len(errors)
    code = _code(errors[0]) if not stored else "partly-stored"
    title = f"{stored} of {len(fates)} stored" if stored else "Not stored"
    retry_after = max(_retry_after(error) for error in errors)
    open_ = {index for index, _, result in fates if not _is_final(result)}
    events = [_with_status(fate, final=fate[0] not in open_) for fate in fates]
    return unavailable(code, title, retry_after, events=events)


def join_faults(errors: Sequence[tuple[int, SenderError]]) -> SenderError:
    """The faults of several events of a batch as one error, each fault with its index."""
    faults = [fault for index, error in errors for fault in _faults_at(index, error)]
    first = errors[0][1]
    if all(error.code == first.code for _, error in errors):
        return SenderError(first.title, status=first.status, code=first.code, faults=faults)
    return SenderError("Several events were not accepted", code="invalid-batch", faults=faults)


def _faults_at(index: int, error: SenderError) -> Sequence[Fault]:
    if not error.faults:
        return (Fault(error.code, error.title, index=index),)
    return [msgspec.structs.replace(fault, index=index) for fault in error.faults]


def _entry(fate: Fate) -> dict[str, Any]:
    """One event in one place: a receipt, flat."""
    index, publication, result = fate
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
    """Return True if no time will make a place take this record."""
    return isinstance(result, BrokerRefused) and result.of_record


def _with_status(fate: Fate, *, final: bool) -> dict[str, Any]:
    """``{index, status, receipt | cause}``; an event is stored when all its entries say 202. ``final``: all places
    of the event refuse it for good."""
    index, _, result = fate
    place = _entry(fate)
    del place["index"]
    if not isinstance(result, BrokerError):
        return {"index": index, "status": 202, "receipt": place}
    cause = {
        "code": _code(result), "detail": str(result), "retryable": result.retryable, **place,
    }  # fmt: skip
    status = 413 if _code(result) == _TOO_LARGE else 422 if final else 503
    return {"index": index, "status": status, "cause": cause}


def _refused(fates: Sequence[Fate], errors: Sequence[BrokerError]) -> Answer:
    codes = [_code(error) for error in errors]
    faults = [
        Fault(code, str(result), index=index if len(fates) > 1 else None)
        for code, (index, _, result) in zip(codes, fates, strict=True)
    ]
    if set(codes) == {_TOO_LARGE}:
        return problem(413, _TOO_LARGE, "The event is too large for its log", faults=faults)
    code = next(code for code in codes if code != _TOO_LARGE)
    return problem(422, code, "The event is refused by its log", faults=faults)


def _code(error: BrokerError) -> str:
    return error.kind if isinstance(error, BrokerRefused) and error.kind != "other" else error.code


def _retry_after(error: BrokerError) -> float:
    if error.retry_after is not None:
        return error.retry_after
    return _RETRY_AFTER if error.retryable else _RETRY_AFTER_OPERATOR
