"""Publish one request: decode, plan, submit, and combine the results into an answer.

If any event of the request is at fault, none is published. A 2xx answer is sent only after the log has stored
every event. If the result is still unknown after the publish time-out, the answer is 503. An event that was
answered 503 is never submitted again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import monotonic as system_monotonic
from time import perf_counter
from typing import Any

import msgspec

from app.access.caller import EventSender
from app.bindings.forwarding import PRODUCER, ROUTE, with_foreign_header, with_header
from app.bindings.http import UnknownFormats, decode
from app.bindings.record import ContentMode, Decoded
from app.bindings.run import EventColumns
from app.errors import BrokerError, SenderError
from app.gateway.answers import ACCEPTED, HttpAnswer, busy, receipts
from app.gateway.conclude import EventResult, Publications, conclude, join_faults
from app.gateway.head_layout import HeadLayout
from app.gateway.limits import ListenerLimits
from app.gateway.request import EventRequest, request_key, wants_receipts
from app.gateway.resource import Done
from app.gateway.row_plan import RowPlan, compile_row
from app.interfaces import Log, PublishResult, results_of
from app.model.log_name import LogName
from app.model.receipt import Receipt
from app.routing.plan import Router, UnknownRoute
from app.routing.publications import Publication, PublicationRun, records_and_identities
from app.telemetry import Counters

Stored = asyncio.Future[list[PublishResult]]

_MOST_ROWS = 1024  # plans of compiled heads
_UNKNOWN: Any = object()
_BINARY, _BATCH = ContentMode.BINARY, ContentMode.BATCH
_ONE_BINARY, _ONE_DOCUMENT, _IN_BATCH = (
    (mode.value,) for mode in (_BINARY, ContentMode.STRUCTURED, _BATCH)
)  # metric labels


class PublishPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one configuration for publishing.

    Attributes:
        router: the object that chooses the routes.
        limits: the bounds of the listener.
        strict_percent: whether a malformed ``%`` in a header is refused.
        forward: names of request headers, in lower case, that are forwarded with the event.
        unknown_formats: the treatment of event formats that Skybridge cannot read.
    """

    router: Router
    limits: ListenerLimits = ListenerLimits()
    strict_percent: bool = False
    forward: frozenset[bytes] = frozenset()
    unknown_formats: UnknownFormats = "forward"


class Publisher:
    """Publishes requests to the logs. Use it on the event loop only.

    A reload replaces ``policy``. Requests that wait for a log are still counted afterwards. A request with
    one event for one target is cheap: it needs one callback and no task.
    """

    def __init__(
        self,
        policy: PublishPolicy,
        logs: Mapping[LogName, Log],
        counters: Counters,
        *,
        monotonic: Callable[[], float] = system_monotonic,
    ) -> None:
        self.policy = policy
        self._logs = logs
        self._counters = counters
        self._received = counters.series("events_received")
        self._published = counters.series("events_published")
        self._produced = counters.series("producer_events")
        self._monotonic = monotonic
        self._took = counters.histogram("publish_seconds")
        self._rows: dict[tuple[HeadLayout, str], RowPlan | None] = {}  # by layout and producer
        self._rows_of = policy  # the policy of these plans
        self.in_flight = 0  # requests that wait for a log

    def takes(self, route: str | None) -> bool:
        """Return True if an event could be published to the route."""
        return self.policy.router.takes(route)

    def publish(self, request: EventRequest, done: Done) -> HttpAnswer | None:
        """Publish a request. Return the answer if it is known at once. Otherwise return None, and call
        ``done`` once later.

        Raise SenderError with every fault if the request is at fault.
        """
        if self.in_flight >= self.policy.limits.in_flight:
            return self._busy()
        caller = request.caller
        if request.layout is not None:
            publication = self._plan_row(request.layout, request, caller)
            if publication is not None:
                if caller is not None:
                    request.counted = True
                    self._take(caller, 1)
                self._received[_ONE_BINARY] += 1
                return self._submit_one(publication, False, done)
        key = request_key(request)
        decoded = self._decode(request)
        if caller is not None:
            request.counted = True
            self._take(caller, len(decoded))
        if len(decoded) == 1 and (decoded[0].mode is not _BATCH or decoded[0].opaque):
            publications = self._plan(decoded[0], key, request.route, caller)
            self._received[_ONE_BINARY if decoded[0].mode is _BINARY else _ONE_DOCUMENT] += 1
            if len(publications) == 1:
                return self._submit_one(publications[0], wants_receipts(request), done)
            return self._submit_many([(0, p) for p in publications], request, done)
        return self._publish_batch(decoded, key, request, done)

    def _publish_batch(
        self, decoded: Sequence[Decoded], key: bytes | None, request: EventRequest, done: Done
    ) -> HttpAnswer | None:
        if isinstance(decoded, EventColumns):
            run = self._plan_alike(decoded, key, request.route, request.caller)
            if run is not None:
                self._received[_IN_BATCH] += len(decoded)
                return self._submit_run(run, wants_receipts(request), done)
        planned = self._plan_batch(decoded, key, request.route, request.caller)
        return self._submit_many(planned, request, done)

    def _plan_row(
        self, layout: HeadLayout, request: EventRequest, caller: EventSender | None
    ) -> Publication | None:
        """Return the publication of an event by the plan of its head, or None if ``_plan`` must plan it."""
        if caller is not None and caller.limited:
            return None
        if self._rows_of is not self.policy or len(self._rows) >= _MOST_ROWS:
            self._rows, self._rows_of = {}, self.policy
        name = "" if caller is None else caller.name
        plan: RowPlan | None = self._rows.get((layout, name), _UNKNOWN)
        if plan is _UNKNOWN:
            policy = self.policy
            plan = compile_row(layout, policy.router, policy.forward, name)
            self._rows[layout, name] = plan
        return plan and plan(request.values, request.body)

    def _take(self, caller: EventSender, count: int) -> None:
        """Charge the events to the quota of the caller. Raise QuotaExceeded if they do not fit."""
        caller.take(count, self._monotonic())
        if caller.name:
            self._produced[caller.name,] += count

    def _plan(
        self, decoded: Decoded, key: bytes | None, route: str | None, caller: EventSender | None
    ) -> tuple[Publication, ...]:
        """Plan the publications of one event. The names of the producer and of a named route are added to the
        event as headers.

        Raise NotAllowed if the caller may not send the event. Other errors are those of ``Router.plan``.
        """
        if route is not None:
            decoded = with_foreign_header(decoded, ROUTE, _header_text(route))
        if caller is not None and caller.name:
            decoded = with_foreign_header(decoded, PRODUCER, caller.name.encode())
        if caller is None or not caller.limited:
            name = "" if caller is None else caller.name
            return self.policy.router.plan(decoded, key, route, name)
        refusal = caller.rights.refusal(decoded.own_attributes, route)
        if refusal is not None:
            raise refusal
        rights = caller.rights
        router = self.policy.router
        planned = router.plan(decoded, key, route, caller.name, rights.demand_route)
        if rights.limits_keys:
            rights.demand_keys([each.record.key for each in planned])
        return planned

    def _decode(self, request: EventRequest) -> Sequence[Decoded]:
        if request.event is not None:
            return [request.event]
        policy = self.policy
        return decode(
            request.headers,
            request.body,
            strict_percent=policy.strict_percent,
            max_batch=policy.limits.batch_events,
            forward=policy.forward,
            unknown_formats=policy.unknown_formats,
        )

    def _plan_batch(
        self,
        decoded: Sequence[Decoded],
        key: bytes | None,
        route: str | None,
        caller: EventSender | None,
    ) -> Publications:
        """Plan every event of a batch. Raise SenderError with all events at fault, each by its index."""
        planned: Publications = []
        errors: list[tuple[int, SenderError]] = []
        for index, event in enumerate(decoded):
            try:
                planned += [(index, p) for p in self._plan(event, key, route, caller)]
            except UnknownRoute:
                raise  # the same for all events
            except SenderError as error:
                errors.append((index, error))
        if errors:
            raise join_faults(errors)
        if decoded:
            self._received[_IN_BATCH] += len(decoded)
        return planned

    def _plan_alike(
        self, run: EventColumns, key: bytes | None, route: str | None, caller: EventSender | None
    ) -> PublicationRun | None:
        """Plan the events of a batch together. Return None if they need separate plans."""
        if caller is not None and caller.limited:
            return None
        if route is not None:
            run = run.with_foreign(with_header(run.foreign, ROUTE, _header_text(route)))
        if caller is not None and caller.name:
            run = run.with_foreign(with_header(run.foreign, PRODUCER, caller.name.encode()))
        return self.policy.router.plan_run(run, key, route)

    def _submit_one(self, publication: Publication, wants: bool, done: Done) -> HttpAnswer | None:
        log, identity = self._logs[publication.log], publication.identity
        one = _SingleSubmission(self, publication, wants, done)
        if identity is None:
            result = log.submit_one(publication.topic, publication.record, one.settle)
            if result is not None:
                return self._conclude_one(publication, result, wants)
        else:
            stored = log.submit(publication.topic, (publication.record,), (identity,))
            if stored.done():
                return self._conclude_one(publication, results_of(stored, 1)[0], wants)
            stored.add_done_callback(lambda stored: one.settle(results_of(stored, 1)[0]))
        self.in_flight += 1
        return None

    def _conclude_one(
        self, publication: Publication, result: PublishResult, wants: bool
    ) -> HttpAnswer:
        if type(result) is Receipt and not result.repeat and not wants:
            self._published[publication.route, publication.broker] += 1
            return ACCEPTED
        return self.conclude([(0, publication)], (result,), wants)

    def _submit_run(self, run: PublicationRun, wants: bool, done: Done) -> HttpAnswer | None:
        """Submit the records of a batch that all go to one topic."""
        route, broker, records = run.route, run.log.broker, run.records
        self.in_flight += 1
        begun = perf_counter()

        def settle(stored: Stored) -> None:
            self.in_flight -= 1
            self.add_duration(broker, perf_counter() - begun)
            results = results_of(stored, len(records))
            plain = [type(each) is Receipt and not each.repeat for each in results]
            if not wants and all(plain):
                self._published[route, broker] += len(records)
                done(ACCEPTED)
            else:
                done(self.conclude([*enumerate(run.publications())], results, wants))

        self._logs[run.log].submit(run.topic, records).add_done_callback(settle)
        return None

    def _submit_many(
        self, publications: Publications, request: EventRequest, done: Done
    ) -> HttpAnswer | None:
        """Submit the records of a request with one call for each target, so that each target gets its events
        in order."""
        wants = wants_receipts(request)
        if not publications:  # an empty batch is valid
            return receipts(()) if wants else ACCEPTED
        many = _MultiSubmission(self, publications, wants, done)
        self.in_flight += 1
        for (log, topic), places in many.group_by_target().items():
            there = [publications[place][1] for place in places]
            stored = self._logs[log].submit(topic, *records_and_identities(there))
            many.follow(log.broker, stored, places)
        return None

    def conclude(
        self, publications: Publications, results: Sequence[PublishResult], wants: bool
    ) -> HttpAnswer:
        """Count the results and return one answer. ``results`` has one result for each publication,
        in order.
        """
        plain = [type(each) is Receipt and not each.repeat for each in results]
        if not wants and all(plain):
            self._published.update([(each.route, each.broker) for _, each in publications])
            return ACCEPTED
        fates: list[EventResult] = [
            (index, publication, result)
            for (index, publication), result in zip(publications, results, strict=True)
        ]
        for _, publication, result in fates:
            self._count(publication, result)
        return conclude(fates, wants)

    def add_duration(self, broker: str, seconds: float) -> None:
        """Add the time that a broker took to store records, in seconds, to the histogram."""
        self._took[broker,].add(seconds)

    def _count(self, publication: Publication, result: PublishResult) -> None:
        route, broker = publication.route, publication.broker
        if isinstance(result, BrokerError):
            self._counters.add("events_unpublished", route, broker, result.code)
            return
        if result.repeat:
            self._counters.add("events_repeated", route, broker, result.repeat)
        if result.repeat != "duplicate":
            self._published[route, broker] += 1

    def _busy(self) -> HttpAnswer:
        self._counters.add("events_refused", "bound-reached")
        return busy("Too many requests wait for a log")


def _header_text(route: str) -> bytes:
    """Return a route as the value of a header. The route may be an unknown name with any text."""
    return route.encode("utf-8", "replace")


class _SingleSubmission:
    """A request of one event for one target that was submitted to a log."""

    __slots__ = ("_begin", "_done", "_publication", "_publisher", "_wants")

    def __init__(
        self, publisher: Publisher, publication: Publication, wants: bool, done: Done
    ) -> None:
        self._publisher = publisher
        self._publication = publication
        self._wants = wants
        self._done = done
        self._begin = perf_counter()

    def settle(self, result: PublishResult) -> None:
        publisher = self._publisher
        publisher.in_flight -= 1
        publisher.add_duration(self._publication.broker, perf_counter() - self._begin)
        self._done(publisher._conclude_one(self._publication, result, self._wants))  # noqa: SLF001 - part of Publisher


class _MultiSubmission:
    """A request of several events or targets that was submitted. It is answered after the result of the last
    target.
    """

    __slots__ = ("_done", "_open", "_publications", "_publisher", "_results", "_wants")

    def __init__(
        self, publisher: Publisher, publications: Publications, wants: bool, done: Done
    ) -> None:
        self._publisher = publisher
        self._publications = publications
        self._wants = wants
        self._done = done
        self._results: dict[int, PublishResult] = {}
        self._open = 0

    def group_by_target(self) -> dict[tuple[LogName, str], list[int]]:
        """Return the indexes of the publications to each log and topic, in order."""
        groups: dict[tuple[LogName, str], list[int]] = {}
        for place, (_, publication) in enumerate(self._publications):
            groups.setdefault((publication.log, publication.topic), []).append(place)
        self._open = len(groups)
        return groups

    def follow(self, broker: str, stored: Stored, places: list[int]) -> None:
        begun = perf_counter()

        def settle(stored: Stored) -> None:
            self._publisher.add_duration(broker, perf_counter() - begun)
            self._results.update(zip(places, results_of(stored, len(places)), strict=True))
            self._open -= 1
            if not self._open:
                self._conclude()

        stored.add_done_callback(settle)

    def _conclude(self) -> None:
        self._publisher.in_flight -= 1
        results = [self._results[place] for place in range(len(self._publications))]
        self._done(self._publisher.conclude(self._publications, results, self._wants))
