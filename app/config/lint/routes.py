"""Checks of routes: their targets exist, their templates and keys compile, and their filters can
match.
"""

from __future__ import annotations

from app.config.derived.key_mappers import known_mappers, load_key_mappers
from app.config.derived.route_resources import load_check
from app.config.lint.reach import EarlierRoutes, may_be_one_topic
from app.config.lint.report import LintReport
from app.config.load.finding import Path, did_you_mean
from app.config.model.brokers import KafkaBroker, PulsarBroker, RabbitBroker
from app.errors import SetupError
from app.model.route import BUILT_IN_MAPPERS, Exchange, OtherRoute, Route, Target
from app.routing.keys import compile_key
from app.routing.places import QUEUE, compile_place
from app.routing.templates import placeholders

_WITH_TOPICS = (KafkaBroker, RabbitBroker, PulsarBroker)


def check_routes(report: LintReport) -> None:
    routes = report.config.routes
    report.duplicates("routes", "name", [route.name for route in routes])
    if not routes:
        _check_empty(report)
    earlier = EarlierRoutes()
    for n, route in enumerate(routes):
        _targets(report, n, route)
        _key(report, n, route)
        _reachable(report, n, route, earlier)
        earlier.add(route.filters)
        _schema(report, n, route)
        _deduplicates(report, n, route)
    _check_topics(report)
    _check_one_durability(report)


def _check_empty(report: LintReport) -> None:
    """Warn if there is no route. Do not warn if other clients may write to the broker of a
    subscription, because the subscription then needs no route.
    """
    if not any(
        report.written_by_others(each.source.broker) for each in report.config.subscriptions
    ):
        report.warning(
            ("routes",),
            "The list of routes is empty, so the answer to every posted event is 422.",
            "Add a route.",
        )


def _targets(report: LintReport, n: int, route: Route) -> None:
    for m, target in enumerate(route.to):
        path = target_path(report, n, m)
        if report.broker((*path, "broker"), target.broker):
            fits_broker(report, path, target)
            _check_durability(report, n, route, target)
        if target in route.to[:m]:
            report.error(
                path,
                "The list of targets has the same target twice.",
                "Remove one of the two targets.",
            )


def fits_broker(report: LintReport, path: Path, target: Target | Exchange) -> None:
    """Report a target that is impossible on its broker, such as an exchange on Kafka. The target is
    that of a route or a mirror.
    """
    kind = report.config.brokers[target.broker].kind
    if isinstance(target, Exchange) and kind != "rabbitmq":
        report.error(
            (*path, "exchange"),
            f"The broker {target.broker!r} is of kind {kind}, and only a broker of kind rabbitmq has exchanges.",
            "Name a topic instead of the exchange, or name a broker of kind rabbitmq.",
        )
        return
    try:
        compile_place(target, kind)
    except SetupError as error:
        report.refused((*path, error.setting.rpartition(".")[2]), error)


def _check_durability(report: LintReport, n: int, route: Route, target: Target | Exchange) -> None:
    """Report relaxed durability for a broker that is not Kafka. Only Kafka has weaker
    acknowledgements.
    """
    kind = report.config.brokers[target.broker].kind
    if route.durability == "relaxed" and kind != "kafka":
        report.error(
            ("routes", n, "durability"),
            f"The setting durability: relaxed is only for Kafka, and the broker {target.broker!r} of a target is of kind {kind}.",
            f"Remove durability, or give the target on {target.broker!r} its own route.",
        )


def _check_one_durability(report: LintReport) -> None:
    """Report routes that publish to the same topic with different durability. Readers of a topic
    must be able to rely on one durability.
    """
    seen: dict[tuple[str, object], list[tuple[str, str]]] = {}  # by broker and acknowledgements
    for n, route in enumerate(report.config.routes):
        for m, target in enumerate(route.to):
            if not isinstance(target, Target):
                continue
            mine = (target.broker, route.acknowledgements)
            others = [
                name
                for (broker, acks), known in seen.items()
                if broker == target.broker and acks != route.acknowledgements
                for name, topic in known
                if may_be_one_topic(topic, target.topic)
            ]
            if others:
                report.error(
                    (*target_path(report, n, m), "topic"),
                    f"The route {others[0]!r} writes to the same topic with another durability.",
                    "Set the same durability and acks on both routes, or name another topic.",
                )
            seen.setdefault(mine, []).append((route.name, target.topic))


def target_path(report: LintReport, n: int, m: int) -> Path:
    """Return the path of a target. ``to`` may be one target or a list."""
    return report.loaded.written(("routes", n, "to", m)) or ("routes", n, "to")


def _key(report: LintReport, n: int, route: Route) -> None:
    """Report a key that does not compile. Key mappers of the operator are imported, so that a
    broken mapper is found before the start.
    """
    path: Path = ("routes", n, "key")
    known = known_mappers(route.key.mapper)
    if route.key.mapper not in known:
        message = f"The key mapper {route.key.mapper!r} does not exist."
        report.error((*path, "mapper"), message, did_you_mean(route.key.mapper, known))
        return
    if not report.may_read_files and route.key.mapper not in BUILT_IN_MAPPERS:
        return  # a proposed configuration must not import code
    try:
        compile_key(route.key, own=load_key_mappers([route]))
    except SetupError as error:
        report.refused((*path, error.setting.rpartition(".")[2]), error)


def _schema(report: LintReport, n: int, route: Route) -> None:
    """Report a schema that does not compile, so that it is found before the start."""
    setting = route.data_schema
    if setting is None:
        return
    path: Path = ("routes", n, "schema")
    if report.may_read_files:
        try:
            load_check(setting, "schema")
        except SetupError as error:
            report.refused((*path, *error.setting.split(".", 2)[1:]), error)
    if isinstance(setting.on_invalid, OtherRoute):
        _takes_invalid(report, (*path, "on_invalid", "route"), route, setting.on_invalid.route)


def _takes_invalid(report: LintReport, path: Path, route: Route, name: str) -> None:
    other = next((each for each in report.config.routes if each.name == name), None)
    if other is None:
        names = [each.name for each in report.config.routes if each is not route]
        report.error(path, f"The route {name!r} does not exist.", did_you_mean(name, names))
    elif other.data_schema is not None:
        report.error(
            path,
            f"The route {name!r} for invalid events has a schema too, so it may refuse these events.",
            "Name a route without a schema for the invalid events.",
        )


def _deduplicates(report: LintReport, n: int, route: Route) -> None:
    if route.deduplicate is None:
        return
    for target in route.to:
        broker = report.config.brokers.get(target.broker)
        if broker is not None and broker.kind != "embedded":
            report.warning(
                ("routes", n, "deduplicate"),
                f"The deduplication window for {target.broker!r} is in the memory of each gateway. A restart forgets the window, "
                "and other gateways do not share it.",
                "If a repeat must never be stored, publish to an embedded log first.",
            )
            return


def _reachable(report: LintReport, n: int, route: Route, earlier: EarlierRoutes) -> None:
    m = earlier.shadow_of(route.filters)
    if m is not None:
        before = report.config.routes[m].name
        report.warning(
            ("routes", n),
            f"The route {route.name!r} never matches, because {before!r} (routes[{m}]) takes its "
            f"events first; only /events/{route.name} reaches it.",
            f"Put the route {route.name!r} before {before!r}, or narrow the filters of {before!r}.",
        )


def _check_topics(report: LintReport) -> None:
    """Warn of topics that must exist already, because the broker's settings do not create them."""
    seen: set[tuple[str, str]] = set()
    for path, broker, topic in _topics(report):
        settings = report.config.brokers.get(broker)
        if not isinstance(settings, _WITH_TOPICS) or settings.topics.create:
            continue
        if topic.startswith(QUEUE):
            continue  # a queue that another application owns
        if (broker, topic) not in seen:
            seen.add((broker, topic))
            what = "The topics of this template" if placeholders(topic) else f"The topic {topic!r}"
            report.warning(
                path,
                f"{what} must exist on {broker!r}, which creates no topics.",
                f"Create the topic, or set brokers.{broker}.topics.create: true.",
            )


def _topics(report: LintReport) -> list[tuple[Path, str, str]]:
    config = report.config
    found: list[tuple[Path, str, str]] = [
        ((*target_path(report, n, m), "topic"), target.broker, target.topic)
        for n, route in enumerate(config.routes)
        for m, target in enumerate(route.to)
        if isinstance(target, Target)
    ]
    for n, subscription in enumerate(config.subscriptions):
        source, letters = subscription.source, subscription.dead_letter
        at: Path = ("subscriptions", n)
        found += [
            ((*at, "source", "topics", m), source.broker, topic)
            for m, topic in enumerate(source.topics)
        ]
        if letters is not None:
            found.append(((*at, "dead_letter", "topic"), letters.broker, letters.topic))
    return found
