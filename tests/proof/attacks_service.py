"""The attacks on workers, targets, names and clocks, which any cluster meets: each draws the steps of a scenario from dice."""

from __future__ import annotations

from random import Random

from proof.attacks import DRIFTS, Draw, by_name
from proof.faults import WAYS, Step
from proof.scenario import NOTHING_LOST, WARM, Scenario, spans
from proof.service_hosts import GATEWAYS, WORKERS


def worker_cut_from_target(dice: Random) -> list[Step]:
    """A worker loses the target and still reaches the brokers."""
    return [
        Step(dice.choice(WORKERS), dice.choice(WAYS), *span, "target")
        for span in spans(dice, 3, (10, 16), (6, 10))
    ]


def clocks(dice: Random) -> list[Step]:
    """The wall clocks of gateways and workers are apart by up to two hours, and step in both directions.
    A worker whose clock is an hour ahead parks keys and is killed, so that others try them again."""
    ahead, most = dice.choice(WORKERS), max(DRIFTS)
    others = [host for host in (*GATEWAYS, *WORKERS) if host != ahead]
    less = [drift for drift in DRIFTS if drift < most]
    steps = [
        Step(host, "clock", round(dice.uniform(0, 8), 1), round(dice.uniform(25, 45), 1), drift)
        for host in others
        for drift in [str(dice.choice(less))]
    ]
    return [
        *steps,
        Step(ahead, "clock", round(dice.uniform(0, 6), 1), 18, str(most)),
        Step(ahead, "killed", 18, 22),
        Step("target", "answers", 8, 20, "moody refuse"),
    ]


def poor_line(dice: Random) -> list[Step]:
    """5 % of the packets between workers and target are lost, and every byte is 100 ms late in each direction. A worker sends
    at most 256 kbit/s."""
    end = round(dice.uniform(40, 50), 1)
    lossy = [Step(host, "packets lost", WARM, end, "target 50") for host in WORKERS]
    return [
        *lossy,
        Step("target", "milliseconds late", WARM, end, "100"),
        Step(dice.choice(WORKERS), "kilobits a second", WARM, end, "256"),
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


def pausing(brokers: str) -> Draw:
    """Return a drawer: a subscription is paused while a worker is killed, paused or cut from the brokers.

    The worker is whole again early in the pause, so that for ten seconds it could begin what it must not.
    """

    def draw(dice: Random) -> list[Step]:
        steps = []
        faults = dice.sample((("killed", ""), ("paused", ""), ("cut from", brokers)), 3)
        for (fault, value), (begin, end) in zip(
            faults, spans(dice, 3, (14, 16), (6, 8)), strict=True
        ):
            worker = dice.choice(WORKERS[1:])  # the first one is asked to pause the subscription
            whole = round(begin + dice.uniform(2, 4), 1)
            steps.append(Step(worker, fault, begin - 1, whole, value))
            steps.append(Step(WORKERS[0], "subscription paused", begin, end, "steady"))
        return steps

    return draw


def service_scenarios(cluster: str, brokers: str) -> list[Scenario]:
    """Return the scenarios of these attacks.

    Args:
        cluster: The kind of the cluster, with which the names of its scenarios begin.
        brokers: What a step calls all hosts that workers connect to, such as ``kafka*``.
    """
    return [
        Scenario(f"{cluster}-target", cluster, NOTHING_LOST, "A worker is cut from the target, not from the brokers.", worker_cut_from_target, signs=("failed", "silence", "moved", "repeated")),
        Scenario(f"{cluster}-clocks", cluster, NOTHING_LOST, "Wall clocks are up to two hours apart, and step.", clocks, clocks=True),
        Scenario(f"{cluster}-line", cluster, NOTHING_LOST, "5 % loss, 200 ms and a slow line to the target.", poor_line, signs=("failed", "moved", "repeated")),
        Scenario(f"{cluster}-silent", cluster, NOTHING_LOST, "Targets accept and never answer.", silent_target, signs=("failed",)),
        Scenario(f"{cluster}-names", cluster, NOTHING_LOST, "DNS lies and hangs.", lying_names, by_name, signs=("silence", "moved")),
        Scenario(
            f"{cluster}-pause", cluster,
            "No attempt begins more than 2 s after `:pause` was answered.",
            "A subscription is paused while workers fail.", pausing(brokers),
            pauses=True, signs=("moved", "repeated"),
        ),
    ]  # fmt: skip
