"""The scenarios on Kafka of three brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from proof.attacks import Attacks
from proof.faults import WAYS, Step
from proof.kafka_cluster_hosts import NAMES as KAFKA
from proof.names import NAME
from proof.scenario import NOTHING_LOST, WARM, Scenario, spans
from proof.service_hosts import GATEWAYS, TARGET_PORT, WORKERS

ATTACKS = Attacks("kafka", KAFKA, "kafka*")


def worker_cut_from_target(dice: Random) -> list[Step]:
    """A worker loses the target and still reaches the brokers."""
    return [
        Step(dice.choice(WORKERS), dice.choice(WAYS), *span, "target")
        for span in spans(dice, 3, (10, 16), (6, 10))
    ]


def coordinator_cut_off(dice: Random) -> list[Step]:
    """The coordinator of a subscription's group vanishes without a word, for longer than a join may take."""
    drawn = spans(dice, 2, (28, 34), (14, 18))
    return [Step("coordinator", "cut from", *span, "rest") for span in drawn]


def clocks(dice: Random) -> list[Step]:
    """The wall clocks of gateways and workers are apart by up to two minutes, and step in both directions.
    A worker is killed between them."""
    steps = [
        Step(host, "clock", round(dice.uniform(0, 8), 1), round(dice.uniform(25, 45), 1), drift)
        for host in (*GATEWAYS, *WORKERS)
        if (drift := str(dice.choice((-3600, -60, -20, 20, 60, 3600))))
    ]
    return [
        *steps,
        Step(dice.choice(WORKERS), "killed", 18, 22),
        Step("target", "answers", 8, 20, "moody refuse"),
    ]


def poor_line(dice: Random) -> list[Step]:
    """5 % of the packets between workers and target are lost, and every byte is 100 ms late in each direction."""
    end = round(dice.uniform(40, 50), 1)
    lossy = [Step(host, "packets lost", WARM, end, "target 50") for host in WORKERS]
    return [
        *lossy,
        Step("target", "milliseconds late", WARM, end, "100"),
        Step(dice.choice(WORKERS), "killed", 20, 24),
    ]


def silent_target(dice: Random) -> list[Step]:
    """The target accepts requests and never answers. Then it closes connections, then it refuses a part of the keys."""
    modes = ["silent", "close", "refuse", "silent"]
    steps = [
        Step("target", "answers", *span, f"{dice.choice(('steady', 'moody'))} {mode}")
        for span, mode in zip(spans(dice, 4, (8, 12), (3, 6)), modes, strict=True)
    ]
    return [*steps, Step(dice.choice(WORKERS), "killed", 16, 22)]


def lying_names(dice: Random) -> list[Step]:
    """DNS hangs, denies the name of the target, and answers with wrong addresses. Connections are closed meanwhile."""
    modes = dice.sample(("hang", "deny", "lie", "loopback"), 4)
    steps = []
    for span, mode in zip(spans(dice, 4, (7, 10), (3, 5)), modes, strict=True):
        steps.append(Step("target", "DNS", *span, mode))
        steps.append(Step("target", "answers", *span, "moody close"))
    return [*steps, Step(dice.choice(WORKERS), "killed", 9, 13)]


def by_name(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the change that gives the target a name, for which workers ask DNS."""
    changed = [
        {**each, "sink": f"http://{NAME}:{TARGET_PORT}/{each['id']}"}
        for each in settings["subscriptions"]
    ]
    return {"subscriptions": changed, "webhooks": {"allow_private": [NAME, "10.0.0.0/8"]}}


def pausing(dice: Random) -> list[Step]:
    """A subscription is paused and resumed, while a worker is cut from the store, killed or paused."""
    steps = []
    for begin, end in spans(dice, 4, (6, 8), (4, 6)):
        worker = dice.choice(WORKERS[1:])  # the first one is asked to pause the subscription
        fault, value = dice.choice((("killed", ""), ("paused", ""), ("cut from", "kafka*")))
        steps.append(Step(worker, fault, begin - 1, end - 1, value))
        steps.append(Step(WORKERS[0], "subscription paused", begin, end, "steady"))
    return steps


def relaxed(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the change that makes all routes relaxed: 202 when the leader alone has the event."""
    return {"routes": [{**each, "durability": "relaxed"} for each in settings["routes"]]}


def unanswered(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the change that lets all routes answer 202 without waiting for a broker."""
    routes = settings["routes"]
    return {"routes": [{**each, "durability": "relaxed", "acks": 0} for each in routes]}


def unordered(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the change that gives up the order per key."""
    return {"subscriptions": [{**each, "ordering": "none"} for each in settings["subscriptions"]]}


SCENARIOS: Sequence[Scenario] = (
    *ATTACKS.scenarios(),
    Scenario("kafka-target", "kafka", NOTHING_LOST, "A worker is cut from the target, not from the brokers.", worker_cut_from_target),
    Scenario(
        "kafka-coordinator", "kafka",
        "Nothing is lost, and deliveries continue within 20 s.",
        "The coordinator of a group is cut off for half a minute.", coordinator_cut_off, resumes=20.0,
    ),
    Scenario("kafka-clocks", "kafka", NOTHING_LOST, "Wall clocks are up to two hours apart, and step.", clocks, clocks=True),
    Scenario("kafka-line", "kafka", NOTHING_LOST, "5 % loss and 200 ms to the target.", poor_line),
    Scenario("kafka-silent", "kafka", NOTHING_LOST, "Targets accept and never answer.", silent_target),
    Scenario("kafka-names", "kafka", NOTHING_LOST, "DNS lies and hangs.", lying_names, by_name),
    Scenario(
        "kafka-pause", "kafka",
        "No attempt begins more than 2 s after `:pause` was answered.",
        "A subscription is paused while workers fail.", pausing,
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
        "kafka-silent-unordered", "kafka",
        "Control: a subscription without order (`ordering: none`) breaks the order per key.",
        "Targets accept and never answer.", silent_target, unordered, convicts="out of order",
    ),
)  # fmt: skip
