"""The demands on a service that gets hostile requests: its answers, its topics, its log and its memory."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Mapping

from proof.hostile_doors import READER
from service_process import ServiceProcess

GROWTH = 128 << 20
"""Bytes that the service may grow after a tenth of the time or the requests.

The bounds of the service allow this much while 24 connections are open: 24 bodies of 1 MiB, 24 answers of the Kafka
listener of 4 MiB, and 8 MiB for the 10,000 addresses and tokens that it remembers. A leak of 1 kB a request exceeds it after
130,000 requests.
"""
PUBLISHING = 5.0  # seconds in which the service may still publish events of streams that were cut
CLOSED = {"strangers", "intakes"}  # doors at which no hostile request may be accepted
_ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Z][A-Za-z -]*\r\n")
_PUBLISHED = re.compile(
    r'^skybridge_events_published_total\{[^}]*route="(\w+)"[^}]*\} (\S+)$', re.MULTILINE
)


class Fault(AssertionError):
    """The service broke a promise."""


def answers_of(door: str, found: bytes) -> Counter[str]:
    """Return the answers of a connection, by their status, or as ``frame``."""
    if door != "kafka":
        return Counter(status.decode() for status in _ANSWER.findall(found))
    at = count = 0
    while at + 4 <= len(found):
        at, count = at + 4 + int.from_bytes(found[at : at + 4], "big"), count + 1
    return Counter(frame=count)


def allowed(door: str, answers: Counter[str]) -> Counter[str]:
    """Return the answers. Raises Fault if one states that the service failed, or accepts an event of a stranger."""
    if bad := [each for each in answers if each.startswith("5") and each != "503"]:
        raise Fault(f"answered {bad}")
    if door in CLOSED and "202" in answers:
        raise Fault("accepted an event of a stranger")
    return answers


def demand_stored(
    service: ServiceProcess, honest: int, accepted: int, within: float = PUBLISHING
) -> None:
    """Demand that the topics have the events that were accepted, and that the service has logged no error.

    Args:
        service: The service, which still runs.
        honest: Requests of the honest sender, of one event each.
        accepted: Requests of others that were answered 2xx, or whose connection ended instead of an answer.
        within: Seconds in which the topics and the counters must agree.
    """
    over = time.monotonic() + within
    topics, published = _counts_of(service)
    while topics.get("events", 0) != published.get("all", 0) and time.monotonic() < over:
        time.sleep(0.05)
        topics, published = _counts_of(service)
    demand_counts(topics, published, honest, accepted)
    errors = [
        line
        for line in service.log.read_text().splitlines()
        if re.search(r"ERROR|CRITICAL|Traceback", line)
    ]
    if errors:
        raise Fault("\n".join(errors[:20]))


def _counts_of(service: ServiceProcess) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return the events of each topic, and those that the gateway has counted for each route a moment later."""
    token = {"authorization": f"Bearer {READER}"}
    _, text = service.ask("GET", "/v1/topics", headers=token)
    topics = {each["name"]: int(each["partitions"][0]["latest"]) for each in json.loads(text)}
    _, metrics = service.ask("GET", "/metrics", headers=token)
    return topics, published_of(metrics)


def published_of(metrics: str) -> dict[str, int]:
    """Return how many events of each route the gateway has counted as stored."""
    found = _PUBLISHED.findall(metrics)
    return {route: round(float(count)) for route, count in found}


def demand_counts(
    topics: Mapping[str, int], published: Mapping[str, int], honest: int, accepted: int
) -> None:
    """Demand that each topic of a route has the events that were accepted for it.

    A batch of the seeds has two events. A change may make it longer or shorter, but not most of them. The Kafka listener
    is open, so other topics are not judged.

    Raises:
        Fault: A topic has more or fewer events.
    """
    if topics.get("kept", 0) != honest:
        raise Fault(f"{topics.get('kept', 0)} of {honest} events of the honest sender are stored")
    stored = topics.get("events", 0)
    if stored != published.get("all", 0):
        raise Fault(f"{stored} events are stored, and {published.get('all', 0)} were published")
    if stored > 2 * accepted:
        raise Fault(f"{stored} events of {accepted} accepted requests are stored")
