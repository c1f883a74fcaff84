"""Check whether the routes can run as a job; all faults are reported before anything is read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.errors import SetupError
from app.model.route import BUILT_IN_MAPPERS, Exchange, Route, Target
from app.routing.plan import Router
from app.routing.templates import compile_template, placeholders
from app.spark.settings import KafkaPlace, Reroute


def check_job(job: Reroute) -> list[str]:
    """Return sentences about differences between the job and the gateway.

    Raises:
        SetupError: The routes cannot run as a job; the message lists every fault.
    """
    faults = [*_faults(job)]
    if faults:
        raise SetupError(
            "these routes cannot run as a job: " + "; ".join(faults),
            setting="routes",
            cure="change them, or give the job a configuration file of its own",
        )
    Router(job.routes)  # raises SetupError for an invalid template
    return [*_notes(job)]


def route_line(route: Route) -> str:
    """Return a line with the name of a route and its targets."""
    return f"{route.name} -> {', '.join(f'{each.broker}:{each.place}' for each in route.to)}"


def _faults(job: Reroute) -> Iterator[str]:
    if not job.topics:
        yield "no topic is named to read from"
    if not job.routes:
        yield "the configuration has no route"
    if job.rejects is not None and job.rejects in job.topics:
        yield f"the rejects go to {job.rejects}, which the job reads"
    for n, route in enumerate(job.routes):
        if route.key.mapper not in BUILT_IN_MAPPERS:
            yield f"routes[{n}].key.mapper: {route.key.mapper} is your own code, which the cluster does not have"
        yield from (f"routes[{n}].{each}" for each in _of_the_gateway(route))
        for place, target in enumerate(route.to):
            for fault in _target_faults(job, target):
                yield f"routes[{n}].to[{place}]: {fault}"


def _of_the_gateway(route: Route) -> Iterator[str]:
    settings = {"schema": route.data_schema, "deduplicate": route.deduplicate}
    for name, setting in settings.items():
        if setting is not None:
            yield f"{name}: only the gateway supports this setting, and a job reads records that are already stored"


def _target_faults(job: Reroute, target: Target | Exchange) -> Iterator[str]:
    place = job.places.get(target.broker)
    if isinstance(target, Exchange) or place is None:
        yield f"{target.broker} is neither a Kafka nor an embedded log with a Kafka listener"
    elif _same(place, job.source):
        for topic in job.topics:
            if _may_name(target.topic, topic):
                may = "is" if target.topic == topic else f"may be {topic},"
                yield f"{target.topic} {may} a topic that the job reads: its records would be routed again"


def _same(one: KafkaPlace, other: KafkaPlace) -> bool:
    return one.broker == other.broker or one.bootstrap_servers == other.bootstrap_servers


def _may_name(template: str, topic: str) -> bool:
    """Return True if some attributes turn the template into this topic."""
    marked = compile_template(template)(dict.fromkeys(placeholders(template), "\0"))
    found = ".+".join(map(re.escape, marked.split("\0")))
    return re.fullmatch(found, topic) is not None


def _notes(job: Reroute) -> Iterator[str]:
    relaxed = [route.name for route in job.routes if route.durability == "relaxed"]
    if relaxed:
        yield f"durability relaxed has no effect: every record waits for all replicas ({', '.join(relaxed)})"


def brokers_of(job: Reroute) -> list[KafkaPlace]:
    """Return the clusters that the job writes to, without repeats."""
    names = dict.fromkeys(target.broker for route in job.routes for target in route.to)
    return [job.places[name] for name in names]
