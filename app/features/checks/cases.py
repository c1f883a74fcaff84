"""Run one case of ``skybridge test``: compute the journey of its event by a configuration, and compare it
with the expectations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from app.api.explain.journeys import explain_as
from app.bindings import http
from app.bindings.record import Decoded
from app.bindings.table import BINDINGS
from app.bindings.transcode import EncodeOptions
from app.config.check.cases import Case
from app.config.derived.kinds import guide_of, kinds_of, rights_of
from app.config.model.config import Config
from app.errors import SenderError
from app.filters.explain import FilterVerdict
from app.routing.hops import JourneyHop, ShapedPreview, SubscriptionVerdict
from app.routing.journey import EventExplainer, Journey

JSON_EVENT = "application/cloudevents+json"


class Mismatch(msgspec.Struct, frozen=True):
    """A difference between an expectation and the result. ``what`` names the expectation, and ``why`` has a
    line for each decision that led to the result."""

    what: str
    expected: Any
    came: Any
    why: tuple[str, ...] = ()


class CaseRunner:
    """A configuration under test."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._guide: EventExplainer = guide_of(config)
        self._kinds = kinds_of(config)

    def judge(self, case: Case) -> list[Mismatch]:
        """Return the mismatches of a case. The list is empty if all expectations are met."""
        try:
            journey = self._journey(case)
        except SenderError as error:
            return list(_refusal(case, error, ()))
        why = tuple(_routes(journey))
        if journey.refused is not None or _expects(case, "refused"):
            return list(_refusal(case, journey.refused, why))
        found = {
            "route": lambda: next(each.name for each in journey.routes if each.chosen),
            "to": lambda: [f"{hop.broker}/{hop.topic}" for hop in journey.hops],
            "key": lambda: _text(journey.hops[0].key),
            "content_mode": lambda: self._mode(journey.hops[0]),
            "subscriptions": lambda: sorted(
                each.id for each in _all_subscriptions(journey.hops) if each.wants
            ),
        }
        return [*_mismatches(case, found, journey, why), *_requests(case, journey)]

    def _journey(self, case: Case) -> Journey:
        rights = None if case.producer is None else rights_of(self._config, case.producer)
        return explain_as(self._guide, _decoded(case), _key(case.key), case.route, rights)

    def _mode(self, hop: JourneyHop) -> str:
        kind = self._kinds.get(hop.broker, "embedded")
        assert hop.record is not None  # noqa: S101 - a route writes one
        return BINDINGS[kind].decode(hop.record).mode.value


def _decoded(case: Case) -> Decoded:
    """Return the event of a case as the events listener would decode it. Raise SenderError if it is not a
    valid event."""
    filled = {"specversion": "1.0", "id": "1", "source": "/skybridge/test", **case.event}
    document = msgspec.json.encode(filled)
    (decoded,) = http.decode([(b"content-type", JSON_EVENT.encode())], document)
    if case.mode == "structured":
        return decoded
    message = http.encode(decoded, EncodeOptions(mode="binary"))
    headers = [(name.lower().encode(), text.encode()) for name, text in message.headers]
    (decoded,) = http.decode(headers, message.body)
    return decoded


def _key(key: str | None) -> bytes | None:
    return None if key is None else key.encode()


def _expects(case: Case, what: str) -> bool:
    return what in case.expect.model_fields_set


def _refusal(case: Case, error: SenderError | None, why: tuple[str, ...]) -> Iterator[Mismatch]:
    """Yield a mismatch about the refusal of an event: it is refused unexpectedly, not refused, or refused
    with another code."""
    expected = case.expect.refused
    if error is None:
        yield Mismatch("refused", expected, "accepted", why)
    elif expected is None:
        yield Mismatch("refused", "accepted", f"{error.status} {error.code}", (str(error), *why))
    elif expected not in {error.code, error.status, str(error.status)}:
        yield Mismatch("refused", expected, f"{error.status} {error.code}", (str(error),))


def _mismatches(
    case: Case, found: Mapping[str, Callable[[], Any]], journey: Journey, routes: tuple[str, ...]
) -> Iterator[Mismatch]:
    """Yield a mismatch for each expectation about the journey that is not met."""
    for what, look in found.items():
        if not _expects(case, what):
            continue
        expected, came = getattr(case.expect, what), look()
        if isinstance(came, list):
            expected = sorted(expected) if what == "subscriptions" else list(expected)
        if expected != came:
            yield Mismatch(what, expected, came, _why(what, expected, came, journey, routes))


def _requests(case: Case, journey: Journey) -> Iterator[Mismatch]:
    """Compare the shaped requests of the subscriptions that a case names."""
    made = {each.id: each for each in _all_subscriptions(journey.hops) if each.wants}
    for name, expected in case.expect.request.items():
        verdict = made.get(name)
        what = f"request of {name}"
        if verdict is None or verdict.request is None:
            why = "" if verdict is None else verdict.fault
            yield Mismatch(what, "a request", "none", (why,) if why else ())
            continue
        for member, came in _members(verdict.request, expected.headers).items():
            wanted = getattr(expected, member)
            if member in expected.model_fields_set and wanted != came:
                yield Mismatch(f"{what}: {member}", wanted, came)


def _members(request: ShapedPreview, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the members of a request in the form in which a test case writes them. Only the headers that the
    case names are included."""
    sent = {name.lower(): value for name, value in request.headers}
    try:
        body: Any = json.loads(request.body)
    except ValueError:
        body = request.body
    return {
        "method": request.method,
        "url": request.url,
        "headers": {name: sent[name.lower()] for name in headers if name.lower() in sent},
        "body": body,
    }


def _why(
    what: str, expected: Any, came: Any, journey: Journey, routes: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the decisions that led to a result."""
    match what:
        case "route" | "to":
            return routes
        case "key":
            return () if journey.key is None else (f"{journey.key.mapper}: {journey.key.why}",)
        case "subscriptions":
            return tuple(_subscription_decisions(journey, {*expected} ^ {*came}))
    return ()


def _routes(journey: Journey) -> Iterator[str]:
    """Yield the decision of each evaluated route."""
    for each in journey.routes:
        if each.chosen:
            yield f"route {each.name} takes it{_deciding_filters(each.filters)}"
        elif each.asked:
            yield f"route {each.name} does not match{_deciding_filters(each.filters)}"


def _subscription_decisions(journey: Journey, named: set[str]) -> Iterator[str]:
    """Yield the decision of each subscription that differs from the expectation."""
    seen = {each.id: each for each in _all_subscriptions(journey.hops)}
    for name in sorted(named):
        each = seen.get(name)
        if each is None:
            places = ", ".join(f"{hop.broker}/{hop.topic}" for hop in journey.hops)
            yield f"subscription {name} does not read {places}"
        elif each.wants:
            yield f"subscription {name} takes it{_deciding_filters(each.filters)}"
        else:
            yield f"subscription {name} does not{each.fault and f': {each.fault}'}{_deciding_filters(each.filters)}"


def _deciding_filters(filters: Sequence[FilterVerdict]) -> str:
    """Return the filters that decided about the event. If some rejected it, these are the filters that did,
    otherwise all."""
    failed = [each for each in filters if not each.passes] or filters
    return "".join(f": {each.decided_by} ({each.because})" for each in failed)


def _all_subscriptions(hops: Sequence[JourneyHop]) -> Iterator[SubscriptionVerdict]:
    """Yield the subscriptions of all topics that the event reaches, including topics to which mirrors copy
    it."""
    for hop in hops:
        for each in hop.subscriptions:
            yield each
            if each.onward is not None:
                yield from _all_subscriptions([each.onward])


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "backslashreplace")
