"""The scenarios on Kafka of three brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from proof.attacks import Attacks
from proof.attacks_service import pausing, service_scenarios, silent_target
from proof.faults import Step
from proof.kafka_cluster_hosts import NAMES as KAFKA
from proof.scenario import NOTHING_LOST, Scenario, spans
from proof.service_hosts import GATEWAYS

ATTACKS = Attacks("kafka", KAFKA, "kafka*")


def coordinator_cut_off(dice: Random) -> list[Step]:
    """The coordinator of a subscription's group vanishes without a word, for longer than a join may take."""
    drawn = spans(dice, 2, (28, 34), (14, 18))
    return [Step("coordinator", "cut from", *span, "rest") for span in drawn]


def relaxed(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the change that makes all routes relaxed: 202 when the leader alone has the event."""
    return {"routes": [{**each, "durability": "relaxed"} for each in settings["routes"]]}


def unanswered(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the change that lets all routes answer 202 without waiting for a broker."""
    routes = settings["routes"]
    return {"routes": [{**each, "durability": "relaxed", "acks": 0} for each in routes]}


def brokers_away(dice: Random) -> list[Step]:
    """Both gateways lose all brokers, each for some seconds of its own. One is killed while its spool has events."""
    steps = []
    for begin, end in spans(dice, 2, (16, 20), (20, 24)):
        steps += [
            Step(name, "cut from", begin, round(end + dice.uniform(0, 4), 1), "kafka*")
            for name in GATEWAYS
        ]
    killed = round(steps[-1].begin + 10, 1)
    return [*steps, Step(dice.choice(GATEWAYS), "killed", killed, killed + 2)]


def spooled(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the change that gives all routes a spool, which each gateway keeps in its own folder."""
    spool = {"broker": "spool", "when": "outage", "max": "64MiB"}
    return {
        "brokers": {"spool": {"kind": "embedded", "path": "spool"}},
        "routes": [{**each, "spool": spool} for each in settings["routes"]],
    }


def unordered(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the change that gives up the order per key."""
    return {"subscriptions": [{**each, "ordering": "none"} for each in settings["subscriptions"]]}


SCENARIOS: Sequence[Scenario] = (
    *ATTACKS.scenarios(),
    *service_scenarios("kafka", "kafka*"),
    Scenario(
        "kafka-coordinator", "kafka",
        "Nothing is lost, and deliveries continue within 20 s.",
        "The coordinator of a group is cut off for half a minute.", coordinator_cut_off, resumes=20.0,
    ),
    Scenario(
        "kafka-spool", "kafka", NOTHING_LOST,
        "Gateways with a spool lose all brokers, and one is killed.", brokers_away, spooled,
        terms={"spool": True, "per_gateway": True}, signs=("silence",),
    ),
    Scenario(
        "kafka-leader-relaxed", "kafka",
        "Control: a relaxed route (`acks: 1`) loses events.",
        "The leader is cut from its followers.", ATTACKS.leader_cut_off, relaxed, convicts="lost",
    ),
    Scenario(
        "kafka-killed-unanswered", "kafka",
        "Control: a route that waits for no broker (`acks: 0`) loses events.",
        "Brokers and workers are killed.", ATTACKS.killed, unanswered, convicts="lost",
    ),
    Scenario(
        "kafka-lease-unfenced", "kafka",
        "Control: a worker that keeps its partitions, and a store that does not fence it, deliver beyond the lease.",
        "A worker is cut from the brokers, not from the target.", ATTACKS.worker_cut_from_log,
        gives_up="fence", convicts="two owners",
    ),
    Scenario(
        "kafka-pause-ignored", "kafka",
        "Control: a worker that ignores `:pause` begins attempts in the pause.",
        "A subscription is paused while workers fail.", pausing("kafka*"),
        gives_up="pause", convicts="begun in pause", pauses=True, signs=("moved", "repeated"),
    ),
    Scenario(
        "kafka-silent-unordered", "kafka",
        "Control: a subscription without order (`ordering: none`) breaks the order per key.",
        "Targets accept and never answer.", silent_target, unordered, convicts="out of order",
    ),
)  # fmt: skip
