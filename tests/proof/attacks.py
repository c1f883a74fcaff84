"""The attacks that any cluster meets: each method draws the steps of a scenario from dice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from proof.faults import WAYS, Step
from proof.scenario import NOTHING_LOST, WARM, Scenario, spans
from proof.service_hosts import GATEWAYS, WORKERS

Draw = Callable[[Random], list[Step]]


class Attacks:
    """Attacks on a cluster.

    Args:
        cluster: The kind of the cluster, with which the names of its scenarios begin.
        brokers: The hosts that gateways and workers connect to.
        pattern: What a step calls all hosts of the cluster, such as ``kafka*``.
    """

    def __init__(self, cluster: str, brokers: Sequence[str], pattern: str) -> None:
        self._cluster, self._brokers, self._pattern = cluster, brokers, pattern

    def leader_cut_off(self, dice: Random) -> list[Step]:
        """The leader does not reach the other brokers. Gateways and workers reach all of them."""
        drawn = spans(dice, 2, (12, 20), (12, 16))
        return [Step("leader", "cut from", *span, self._pattern) for span in drawn]

    def minority(self, dice: Random) -> list[Step]:
        """A broker, a gateway and a worker are on the small side of a cut. The store is on the other side."""
        steps = []
        for begin, end in spans(dice, 2, (12, 20), (12, 16)):
            side = f"{dice.choice(self._brokers)} {dice.choice(GATEWAYS)} {dice.choice(WORKERS)}"
            steps.append(Step(side, "cut from", begin, end, "rest"))
        return steps

    def one_way(self, dice: Random) -> list[Step]:
        """Packets are lost in one direction alone: to brokers, from brokers, to workers."""
        steps = []
        for begin, end in spans(dice, 4, (8, 14), (5, 8)):
            host = dice.choice((*self._brokers, *WORKERS, *GATEWAYS))
            ours = host not in self._brokers
            others = self._pattern if ours else dice.choice((self._pattern, "worker* gateway*"))
            steps.append(Step(host, dice.choice(("deaf to", "mute to")), begin, end, others))
        return steps

    def flapping(self, dice: Random) -> list[Step]:
        """The network of a broker, and then of a worker, fails and returns every two seconds."""
        steps = []
        at = WARM
        for host in (dice.choice(self._brokers), dice.choice(WORKERS)):
            for _ in range(8):
                lasts = round(dice.uniform(0.7, 1.5), 2)
                steps.append(Step(host, "cut from", at, at + lasts, "rest"))
                at += 2
            at += 8
        return steps

    def rolling_restart(self, dice: Random) -> list[Step]:
        """Each broker is stopped in order and started again, one after another, in a random order."""
        order = dice.sample(self._brokers, len(self._brokers))
        spread = spans(dice, len(order), (5, 8), (16, 20))
        return [Step(host, "restarted", *span) for host, span in zip(order, spread, strict=True)]

    def killed(self, dice: Random) -> list[Step]:
        """Brokers and workers are killed, and start again seconds later."""
        steps = []
        for begin, end in spans(dice, 3, (4, 8), (12, 16)):
            steps.append(Step(dice.choice(self._brokers), "killed", begin, end))
            steps.append(Step(dice.choice(WORKERS), "killed", begin + dice.uniform(0, 6), end + 7))
        return steps

    def one_away(self, dice: Random) -> list[Step]:
        """Each broker is away for long, killed or cut off, one after another. The others go on."""
        steps, at = [], WARM
        for host in dice.sample(self._brokers, len(self._brokers)):
            end = at + dice.uniform(24, 30)
            fault, value = dice.choice((("killed", ""), ("cut from", "rest")))
            steps.append(Step(host, fault, at, end, value))
            at = end + 20
        return steps

    def worker_cut_from_log(self, dice: Random) -> list[Step]:
        """A worker loses the brokers and still reaches the target, for longer than its lease. Keys of a subscription wait until
        the lease is over, so that the worker has something to deliver."""
        steps = []
        for begin, end in spans(dice, 3, (22, 28), (10, 14)):
            worker, way = dice.choice(WORKERS), dice.choice(WAYS)
            steps.append(Step("target", "answers", begin - 3, begin + 18, "moody refuse"))
            steps.append(Step(worker, way, begin, end, self._pattern))
        return steps

    def everything(self, minutes: float, more: Sequence[str] = ()) -> Draw:
        """Return a drawer of faults at all hosts, and at ``more`` of the cluster, for so many minutes."""

        def draw(dice: Random) -> list[Step]:
            steps, at, last = [], WARM, minutes * 60
            hosts = (*self._brokers, *more, *WORKERS, *GATEWAYS, "store", "target")
            while at < last:
                end = round(at + dice.uniform(3, 15), 1)
                steps.append(self._any_fault(dice, dice.choice(hosts), round(at, 1), end))
                at = end + dice.uniform(1, 6) if dice.random() < 0.7 else at + 2
            return _apart(steps)

        return draw

    def _any_fault(self, dice: Random, host: str, begin: float, end: float) -> Step:
        if host == "target":
            mode = dice.choice(("silent", "close", "refuse", "refuse-all"))
            return Step(host, "answers", begin, end, f"{dice.choice(('steady', 'moody'))} {mode}")
        fault = dice.choice(("killed", "paused", "restarted", *WAYS))
        value = dice.choice(("rest", self._pattern)) if fault in WAYS else ""
        return Step(host, fault, begin, end, value)

    def scenarios(self) -> list[Scenario]:
        """Return the scenarios of these attacks."""
        rows: Sequence[tuple[str, str, Draw]] = (
            ("leader", "The leader is cut from its followers.", self.leader_cut_off),
            ("minority", "A cut leaves a broker, a gateway and a worker alone.", self.minority),
            ("one-way", "Packets arrive in one direction alone.", self.one_way),
            ("flapping", "A network fails and returns every 2 s.", self.flapping),
            ("rolling", "All brokers restart, one after another.", self.rolling_restart),
            ("away", "Each broker is away for half a minute.", self.one_away),
            ("killed", "Brokers and workers are killed.", self.killed),
            (
                "lease",
                "A worker is cut from the brokers, not from the target.",
                self.worker_cut_from_log,
            ),
            ("random", "All faults at random, for five minutes.", self.everything(5)),
        )
        return [
            Scenario(
                f"{self._cluster}-{name}",
                self._cluster,
                _CLAIMS.get(name, NOTHING_LOST),
                attack,
                draw,
            )
            for name, attack, draw in rows
        ]


_CLAIMS = {"lease": "A worker that lost the brokers does not deliver beyond its lease."}


def _apart(steps: Sequence[Step]) -> list[Step]:
    """Leave out a step that begins before the last one of its host has ended, and 2 s more."""
    kept, free = [], dict.fromkeys({step.host for step in steps}, 0.0)
    for step in steps:
        if step.begin >= free[step.host]:
            kept.append(step)
            free[step.host] = step.end + 2
    return kept
