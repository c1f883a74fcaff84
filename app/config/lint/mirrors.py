"""Checks of mirrors, which are subscriptions whose sink is a topic. The broker must exist, the
topic must be valid, and no event may loop.
"""

from __future__ import annotations

from app.config.lint.reach import FlowGraph, feeds, may_both_match
from app.config.lint.report import LintReport
from app.config.lint.routes import fits_broker
from app.config.load.finding import Path
from app.model.route import Exchange, Target
from app.model.subscription import Subscription
from app.routing.places import is_fixed

Hop = tuple[int, Subscription, Target]
"""The index of a subscription in the list, the subscription, and the topic that it mirrors to."""


def check_mirrors(report: LintReport) -> None:
    hops: list[Hop] = []
    for n, subscription in enumerate(report.config.subscriptions):
        target = subscription.sink
        at: Path = ("subscriptions", n, "sink")
        if not isinstance(target, Target | Exchange) or not report.broker(
            (*at, "broker"), target.broker
        ):
            continue
        fits_broker(report, at, target)
        if isinstance(target, Target):
            hops.append((n, subscription, target))
    graph = FlowGraph(hops, lambda hop, other: _leads_to(hop, other[1]))
    for number, hop in enumerate(hops):
        if not _loops_to_itself(report, hop):
            _check_loop(report, number, hop, graph)


def _loops_to_itself(report: LintReport, hop: Hop) -> bool:
    """Report a mirror into one of its own sources, which would copy its events forever.

    If the topic comes from a template, this is only a warning, because each event is checked again
    at delivery.
    """
    n, subscription, target = hop
    if not _leads_to(hop, subscription):
        return False
    at: Path = ("subscriptions", n, "sink", "topic")
    if is_fixed(target):
        report.error(
            at,
            "The subscription reads the topic and also writes to it, so events would loop forever.",
            "Name another topic.",
        )
    else:
        report.warning(
            at,
            "The topic template can produce a topic that the same subscription reads. Events for this topic become dead letters.",
            "Add fixed text to the template, or filter by the attributes in the template.",
        )
    return True


def _check_loop(report: LintReport, number: int, start: Hop, graph: FlowGraph[Hop]) -> None:
    """Report mirrors that copy events to each other in a loop. Each loop is reported once, at its
    first mirror in the file.
    """
    found = graph.cycles_from(number, _may_follow)
    cycle = next((each for each in found if len(each) > 1), None)
    if cycle is None or start[0] != min(n for n, _, _ in cycle):
        return
    names = " → ".join(repr(subscription.id) for _, subscription, _ in (*cycle, start))
    certain = all(is_fixed(target) for _, _, target in cycle)
    say = report.error if certain else report.warning
    say(
        ("subscriptions", start[0], "sink"),
        f"These subscriptions form a loop, which would copy an event forever: {names}.",
        "Remove one of these subscriptions, or filter by an attribute that names the origin of an event.",
    )


def _leads_to(hop: Hop, reader: Subscription) -> bool:
    _, subscription, target = hop
    return target.broker == reader.source.broker and any(
        feeds(target, subscription.filters, topic) for topic in reader.source.topics
    )


def _may_follow(cycle: list[Hop], hop: Hop) -> bool:
    """Return True if some event may pass the filters of all these subscriptions."""
    return all(may_both_match(earlier.filters, hop[1].filters) for _, earlier, _ in cycle)
