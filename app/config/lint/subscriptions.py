"""Checks of subscriptions: their sources exist and get events, their events have keys, and their
dead letters do not loop.
"""

from __future__ import annotations

from app.config.lint.reach import feeds, may_both_match, may_have_no_key, writing_routes
from app.config.lint.report import LintReport
from app.config.load.finding import Path
from app.config.model.brokers import KafkaBroker, RabbitBroker
from app.model.position import why_impossible
from app.model.route import Exchange, Route, Target
from app.model.start import Start
from app.model.subscription import Subscription
from app.routing.places import QUEUE, is_place
from app.routing.templates import not_a_spool

MANY = 50  # subscriptions of one topic from which on they should share a membership


def check_subscriptions(report: LintReport) -> None:
    subscriptions = report.config.subscriptions
    report.duplicates("subscriptions", "id", [each.id for each in subscriptions])
    for n, subscription in enumerate(subscriptions):
        _source(report, n, subscription)
        _start(report, n, subscription)
        _shared_queues(report, n, subscription)
        _dead_letters(report, n, subscription)
        _order(report, n, subscription)
        _sharing(report, n, subscription)
    _unshared(report)


def _source(report: LintReport, n: int, subscription: Subscription) -> None:
    at: Path = ("subscriptions", n, "source")
    known = report.broker((*at, "broker"), subscription.source.broker)
    for m, topic in enumerate(subscription.source.topics):
        if topic in subscription.source.topics[:m]:
            report.warning(
                (*at, "topics", m),
                f"The topic {topic!r} is listed already, so this entry has no effect.",
                "Remove the entry.",
            )
        elif not is_place(topic, _kind(report, subscription.source.broker)):
            report.error(
                (*at, "topics", m),
                "The value is not a topic name.",
                f"Write 1 to 249 of the characters a-z A-Z 0-9 . _ -{not_a_spool(topic)}.",
            )
        elif (
            known and not topic.startswith(QUEUE) and not _gets_events(report, subscription, topic)
        ):
            report.warning(
                (*at, "topics", m),
                f"The topic {topic!r} of broker {subscription.source.broker!r} gets no events for {subscription.id!r} from any "
                f"route{_reason(report, subscription, topic)}.",
                "Add a route to this topic, or correct the broker, the topic or the filters.",
            )


def _kind(report: LintReport, broker: str) -> str:
    settings = report.config.brokers.get(broker)
    return "embedded" if settings is None else settings.kind


def _gets_events(report: LintReport, subscription: Subscription, topic: str) -> bool:
    """Return True if a route, a mirror, operator events or other clients may write to the topic."""
    if report.written_by_others(subscription.source.broker):
        return True
    events = report.config.operator_events
    if events is not None and (events.broker, events.topic) == (subscription.source.broker, topic):
        return True
    return bool(_feeding(report, subscription, topic)) or any(
        isinstance(other.sink, Target | Exchange)
        and other.sink.broker == subscription.source.broker
        and feeds(other.sink, other.filters, topic)
        and may_both_match(other.filters, subscription.filters)
        for other in report.config.subscriptions
    )


def _feeding(report: LintReport, subscription: Subscription, topic: str) -> list[Route]:
    """Return the routes that may write events to the topic which pass the filters of the
    subscription.
    """
    return [
        route
        for route in writing_routes(report.config.routes, subscription, topic)
        if may_both_match(route.filters, subscription.filters)
    ]


def _reason(report: LintReport, subscription: Subscription, topic: str) -> str:
    """Return the reason for a warning, or empty text. The reason is set if routes write to the
    topic, but the filters of the subscription match none of their events.
    """
    if writing_routes(report.config.routes, subscription, topic):
        return ", because the filters of the subscription match none of the topic's events"
    return ""


def _start(report: LintReport, n: int, subscription: Subscription) -> None:
    """Report a ``start`` at a time or position for a RabbitMQ queue, which has only its present
    messages. A RabbitMQ stream has positions.
    """
    settings = report.config.brokers.get(subscription.source.broker)
    if not isinstance(settings, RabbitBroker) or settings.queue_type == "stream":
        _positions(report, n, subscription)
    elif not isinstance(subscription.start, str):
        report.error(
            ("subscriptions", n, "start"),
            "The start is a time or a position, but a RabbitMQ queue has neither times nor positions.",
            "Write latest or earliest, or set queue_type: stream on the broker.",
        )


def _positions(report: LintReport, n: int, subscription: Subscription) -> None:
    start, kind = subscription.start, _kind(report, subscription.source.broker)
    for number, text in (start.position or {}).items() if isinstance(start, Start) else ():
        if reason := why_impossible(kind, number, text):
            report.error(
                ("subscriptions", n, "start", "position", number),
                reason,
                "Write a possible position, a time, earliest or latest.",
            )


def _shared_queues(report: LintReport, n: int, subscription: Subscription) -> None:
    """Warn of subscriptions that share RabbitMQ queues, because each message then goes to only one
    of the subscriptions.
    """
    source = subscription.source
    settings = report.config.brokers.get(source.broker)
    if not isinstance(settings, RabbitBroker) or settings.queue_type == "stream":
        return
    for m, topic in enumerate(source.topics):
        if "{group}" in settings.queue and not topic.startswith(QUEUE):
            continue
        for earlier in report.config.subscriptions[:n]:
            if earlier.source.broker == source.broker and topic in earlier.source.topics:
                report.warning(
                    ("subscriptions", n, "source", "topics", m),
                    f"The topic {topic!r} is read by {subscription.id!r} and {earlier.id!r} from the same queues, so each "
                    "event goes to only one of the two subscriptions.",
                    _queues_apart(source.broker, topic),
                )
                break


def _sharing(report: LintReport, n: int, subscription: Subscription) -> None:
    """Report ``sharing: topic`` where no membership can be shared."""
    if subscription.sharing == "none":
        return
    at: Path = ("subscriptions", n, "sharing")
    if not isinstance(report.config.brokers.get(subscription.source.broker), KafkaBroker):
        report.error(
            at,
            "Only subscriptions of Kafka share a membership. On other brokers a group costs no membership.",
            "Remove sharing.",
        )
    elif len(subscription.source.topics) > 1:
        report.error(
            at,
            f"The subscription {subscription.id!r} has several topics, but shares the membership of one topic.",
            "Make a subscription for each topic, or remove sharing.",
        )


def _unshared(report: LintReport) -> None:
    """Recommend ``sharing: topic`` for each Kafka topic with many subscriptions that have groups of their own."""
    groups: dict[tuple[str, str], int] = {}
    for each in report.config.subscriptions:
        broker, topics = each.source.broker, each.source.topics
        if each.sharing == "none" and len(topics) == 1:
            groups[broker, topics[0]] = groups.get((broker, topics[0]), 0) + 1
    for (broker, topic), count in groups.items():
        if count >= MANY and isinstance(report.config.brokers.get(broker), KafkaBroker):
            report.warning(
                ("subscriptions",),
                f"{count} subscriptions of the topic {topic!r} have a Kafka group each. A worker can run about 200 such "
                "groups.",
                "Set sharing: topic on them. They then share one membership, and their positions are in the store. A "
                "kill of the worker repeats what was finished since the last batch of positions, usually 0.2 s.",
            )


def _queues_apart(broker: str, topic: str) -> str:
    """Return the cure for shared queues. If another application made the queue, the setting
    ``queue`` of the broker does not apply, so the cure is another one.
    """
    if topic.startswith(QUEUE):
        return "Bind a separate RabbitMQ queue for each subscription."
    return f'Write {{group}} into brokers.{broker}.queue: "{{topic}}.{{group}}.{{partition}}".'


def _dead_letters(report: LintReport, n: int, subscription: Subscription) -> None:
    letters = subscription.dead_letter
    if letters is None:
        return
    at: Path = ("subscriptions", n, "dead_letter")
    report.broker((*at, "broker"), letters.broker)
    if not is_place(letters.topic, _kind(report, letters.broker)):
        report.error(
            (*at, "topic"),
            "The value is not a topic name.",
            "Write a topic name of fixed text, without placeholders in braces.",
        )
    if letters.broker == subscription.source.broker and letters.topic in subscription.source.topics:
        report.error(
            (*at, "topic"),
            "The topic of the dead letters is also a source of the subscription, so dead letters would loop forever.",
            "Name another topic.",
        )


def _order(report: LintReport, n: int, subscription: Subscription) -> None:
    """Warn if events may have no key, because events without a key have no order."""
    if subscription.ordering == "none" or subscription.order_by is not None:
        return
    routes = {
        route.name: route
        for topic in subscription.source.topics
        for route in _feeding(report, subscription, topic)
        if may_have_no_key(route.key)
    }
    if routes:
        names = ", ".join(repr(name) for name in routes)
        report.warning(
            ("subscriptions", n),
            f"The subscription {subscription.id!r} keeps order per key, but events of these routes may have no key: {names}.",
            "Give these routes a key with missing: reject, or set order_by or ordering: none on the subscription.",
        )
