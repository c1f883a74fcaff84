"""Warn of settings that are valid and have no effect, because another setting takes it away.

Each check looks only at settings that the file has. A default that has no effect is no finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from app.config.lint.report import LintReport
from app.config.load.finding import Path
from app.config.model.brokers import EmbeddedBroker, KafkaBroker, PulsarBroker, RabbitBroker
from app.model.route import Exchange, Route, Target
from app.model.subscription import Subscription

_OF_CREATED = {
    KafkaBroker: ("partitions", "replication"),
    PulsarBroker: ("partitions",),
}
"""The settings of ``topics`` that shape only created topics. RabbitMQ uses ``partitions`` for existing topics too."""


class Ineffective(NamedTuple):
    """A setting without an effect: where it is in its section, why, and how it could have an effect; "" if it cannot."""

    path: Path
    why: str
    otherwise: str = ""


def check_ineffective(report: LintReport) -> None:
    """Warn of settings without an effect."""
    for at, found in _sections(report):
        for each in found:
            name = str(each.path[-1])
            report.warning(
                (*at, *each.path),
                f"The setting {name} has no effect, because {each.why}.",
                f"Remove {name}{f', or {each.otherwise}' if each.otherwise else ''}.",
            )


def _sections(report: LintReport) -> Iterator[tuple[Path, Iterator[Ineffective]]]:
    """Yield each section with its settings that have no effect."""
    for name, broker in report.config.brokers.items():
        yield ("brokers", name), _of_broker(broker)
    for n, route in enumerate(report.config.routes):
        yield ("routes", n), _of_route(report, route)
    for n, subscription in enumerate(report.config.subscriptions):
        yield ("subscriptions", n), _of_subscription(report, subscription)
    yield ("store", "attempts"), _of_attempts(report)
    yield ("server",), _of_server(report)


def _of_broker(broker: object) -> Iterator[Ineffective]:
    match broker:
        case EmbeddedBroker():
            yield from _of_embedded(broker)
        case KafkaBroker() | PulsarBroker() if not broker.topics.create:
            for name in _OF_CREATED[type(broker)]:
                if name in broker.topics.model_fields_set:
                    yield Ineffective(
                        ("topics", name), "Skybridge creates no topics", "set create: true"
                    )
    match broker:
        case PulsarBroker(publisher="client") if broker.batching != "none":
            yield Ineffective(
                ("batching",),
                "only the publisher protocol makes batches",
                "set publisher: protocol",
            )
        case RabbitBroker():
            yield from _of_rabbitmq(broker)


def _of_embedded(broker: EmbeddedBroker) -> Iterator[Ineffective]:
    if broker.drop_unread and broker.retention.age is None and broker.retention.size is None:
        yield Ineffective(("drop_unread",), "retention deletes no records", "set retention")
    if broker.kafka_listener is None:
        why, otherwise = "only clients of a Kafka listener", "set kafka_listener"
        if "group_age" in broker.model_fields_set:
            yield Ineffective(("group_age",), f"{why} make such groups", otherwise)
        for name, topic in broker.topics.items():
            if topic.validation is not None:
                at: Path = ("topics", name, "validate")
                yield Ineffective(at, f"{why} can write records that are no events", otherwise)


def _of_rabbitmq(broker: RabbitBroker) -> Iterator[Ineffective]:
    if not broker.topics.create and broker.hash_exchange:
        yield Ineffective(
            ("hash_exchange",), "Skybridge creates no topics", "set topics.create: true"
        )
    if broker.queue_type == "stream" and "dead_letter_queue" in broker.model_fields_set:
        yield Ineffective(("dead_letter_queue",), "a stream gives up no messages")


def _of_route(report: LintReport, route: Route) -> Iterator[Ineffective]:
    if route.empty_body is None:
        return
    if route.content_mode == "structured":
        why = "content_mode: structured writes every event as a document"
        yield Ineffective(("empty_body",), why, "set content_mode: binary")
        return
    brokers = [report.config.brokers.get(each.broker) for each in route.to]
    if all(isinstance(each, RabbitBroker) for each in brokers):
        yield Ineffective(("empty_body",), "a message of RabbitMQ always has a body")


def _of_subscription(report: LintReport, one: Subscription) -> Iterator[Ineffective]:
    if isinstance(one.sink, Target | Exchange):
        yield from _of_mirror(report, one)
    waits = len(one.retry.schedule)
    if one.retry.hold > waits and "hold" in one.retry.model_fields_set:
        why = f"the schedule has only {waits} waits, so an event is given up before it is parked"
        yield Ineffective(("retry", "hold"), why, f"set it to less than {waits}")
    most = report.config.limits.deliveries_in_flight
    if one.concurrency > most:
        why = f"limits.deliveries_in_flight allows only {most} attempts of all subscriptions"
        yield Ineffective(("concurrency",), why, "raise limits.deliveries_in_flight")


def _of_mirror(report: LintReport, one: Subscription) -> Iterator[Ineffective]:
    if "response_limit" in one.model_fields_set:
        yield Ineffective(("response_limit",), "a topic sends no answer that could be long")
    publish = report.config.timeouts.publish
    if "timeout" in one.model_fields_set and one.timeout >= publish:
        why = f"timeouts.publish ends the attempt after {publish:g} s"
        yield Ineffective(("timeout",), why, f"set it to less than {publish:g} s")


def _of_attempts(report: LintReport) -> Iterator[Ineffective]:
    kept = report.config.store.attempts
    if "bodies_retention" in kept.model_fields_set and kept.bodies_retention > kept.retention:
        why = "the whole attempt is deleted earlier, after retention"
        yield Ineffective(("bodies_retention",), why, "raise retention")


def _of_server(report: LintReport) -> Iterator[Ineffective]:
    server = report.config.server
    if server.events.reuse_port and server.events.port == 0:
        yield Ineffective(
            ("events", "reuse_port"),
            "port 0 takes a free port that no other process has",
            "set port",
        )
    if server.admin.public_url is not None and not report.config.alerts:
        yield Ineffective(
            ("admin", "public_url"), "only alerts have links to the console", "add alerts"
        )
