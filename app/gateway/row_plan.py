"""Pure. The plan of requests whose head is compiled: check the values, then make the record from the bytes."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

from app.bindings.forwarding import PRODUCER, ROUTE
from app.bindings.http import plain_layout
from app.bindings.layout import HeaderLayout
from app.bindings.record import Header
from app.gateway.head_layout import HeadLayout
from app.routing.plan import Router
from app.routing.publications import Publication

Checks = tuple[tuple[int, Callable[[str], object]], ...]
RowPlan = Callable[[tuple[bytes, ...], bytes], Publication | None]
"""A function from the varying values and the body of a request to its publication, or None if the ordinary way must
decide."""


def compile_row(
    layout: HeadLayout, router: Router, forward: frozenset[bytes], producer: str
) -> RowPlan | None:
    """Return the plan of requests with this head, or None if they must be decoded and planned one by one.

    Args:
        layout: The head.
        router: The routes.
        forward: Names of request headers that are forwarded with the event.
        producer: The name of the producer, or "".
    """
    plain = plain_layout(layout.names, layout.fixed.get(b"content-type"), forward)
    if plain is None:
        return None
    headers, content_type = plain
    foreign: list[Header] = [(PRODUCER, producer.encode())] if producer else []
    if layout.route is not None:
        foreign.append((ROUTE, layout.route.encode("utf-8", "replace")))
    plan = router.plan_rows(headers.names, content_type, layout.route, foreign)
    checks = _checks(headers, layout)
    if plan is None or checks is None:
        return None
    pick = _pick([n for n, name in enumerate(layout.varying) if name.startswith(b"ce-")])

    def plan_row(values: tuple[bytes, ...], body: bytes) -> Publication | None:
        own = pick(values)
        for place, accepts in checks:
            if not accepts(own[place].decode()):
                return None
        return plan(own, body)

    return plan_row


def _checks(headers: HeaderLayout, layout: HeadLayout) -> Checks | None:
    """Return the tests of the values that vary, by the place of their attribute. Return None if a value that is
    part of the pattern is invalid."""
    found = []
    for name, accepts in headers.checks or ():
        value = layout.fixed.get(b"ce-" + name.encode())
        if value is None:
            found.append((headers.names.index(name), accepts))
        elif not accepts(value.decode("latin-1")):
            return None
    return tuple(found)


def _pick(places: list[int]) -> Callable[[tuple[bytes, ...]], tuple[bytes, ...]]:
    """Return a function that picks the attribute values from the values of a head."""
    first, last = places[0], places[-1]
    if last - first == len(places) - 1:
        return itemgetter(slice(first, last + 1))  # side by side: one step
    return itemgetter(*places)
